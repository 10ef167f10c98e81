"""Kernel cache: machine code of kernels on disk, shared by processes.

    kernels/DIGEST   {"module": DIGEST}                          one entry for each kernel
    modules/DIGEST   a line of JSON, then the object code        kernels that were compiled together

Kernels that a program lacks are compiled together into a *module*: their machine code, and a table
of the arguments of each. So a later process that runs the same program reads two files, and neither
lowers nor compiles; another program that shares some kernels loads those.

The key of a kernel is a digest of its structure, its tuned actions if any, and its *compile
environment*: the compiler and its version, the target, the settings, and the sources of Porism.
Entries are JSON and object code; reading an entry executes nothing.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, TypeAlias

from porism.backends.backend_table import Backend, ObjectCode
from porism.backends.kernel_function import KernelFunction, kernel_function
from porism.base import debug, source_digest
from porism.base.errors import PorismError
from porism.base.file_store import Store, log_once, name_of, store
from porism.base.settings import TABLE
from porism.base.target import Target
from porism.engine.cache import cache_counts
from porism.engine.profile import compile_progress
from porism.ir.node import UOp
from porism.ir.text.serialization import parse, to_text

if TYPE_CHECKING:
    from porism.optimize.actions.action import Action

IRRELEVANT_SETTINGS: Final = frozenset(
    ("debug", "trace", "rewrite_limit", "backend", "device", "cache", "cache_dir",
     "cache_mb", "pool_megabytes", "jit_signatures", "constants_megabytes", "beam", "beam_seconds",
     "progress", "verify", "verify_ms")
)  # fmt: skip
"""Settings that do not change the generated code. All others are part of the key, also `check`:
code that was compiled without checks must not be returned to a user who asks for them."""

UNREADABLE: Final = (
    ValueError, LookupError, TypeError, AttributeError, RuntimeError, OSError, PorismError,
)  # fmt: skip
"""What reading and linking a damaged entry may raise."""

MAX_MODULES: Final = 1000
"""Linked modules in memory, by name, chosen by hand; the oldest is evicted first."""


@dataclass(slots=True)
class Counts:
    """Kernels that this process has loaded from disk, and compiled."""

    found: int = 0
    compiled: int = 0


counts: Final = Counts()


@dataclass(frozen=True, slots=True)
class Module:
    """The functions of a linked module, by the names of their entries on disk."""

    functions: Mapping[str, KernelFunction]


_modules: dict[str, Module] = {}


ActionsByKernel: TypeAlias = "Mapping[UOp, Sequence[Action]]"
"""Actions of the kernels that are not scheduled by the heuristic."""


def load_or_compile(
    kernels: Sequence[UOp], backend: Backend, tuned: ActionsByKernel | None = None
) -> dict[UOp, KernelFunction]:
    """Return kernels as machine code: loaded from disk, or compiled together and stored there."""
    tuned = tuned or {}
    assert backend.load is not None, "the evaluator has no machine code"
    target = backend.target()
    if backend.objects is None:
        loaded = backend.load(dict(_lower(kernels, target, tuned)))
        return dict(zip(kernels, loaded.values(), strict=True))
    disk = store()
    environment = compile_environment(target, backend) if disk is not None else None
    if disk is None or environment is None:
        compiled = _compile(kernels, target, backend.objects, tuned)[1]
        return dict(zip(kernels, compiled.values(), strict=True))
    names = {kernel: name_of(environment, *_kernel_key(kernel, tuned)) for kernel in kernels}
    cached = _load_kernels(names, disk, backend)
    missing = [kernel for kernel in kernels if kernel not in cached]
    tally = cache_counts.process_counts(disk.folder)
    tally.kernel_hits += len(cached)
    tally.kernel_misses += len(missing)
    if debug.level() >= debug.COMPILING:
        debug.log(f"kernels found on disk: {len(cached)} of {len(kernels)}")
    if missing:
        code, compiled = _compile(missing, target, backend.objects, tuned)
        cached |= zip(missing, compiled.values(), strict=True)
        rows = zip(missing, compiled.items(), strict=True)
        _store_module(code, {names[kernel]: row for kernel, row in rows}, disk, environment)
    return cached


def entry_names(
    kernels: Sequence[UOp], backend: Backend, tuned: ActionsByKernel
) -> list[str] | None:
    """Return the names of the entries of kernels on disk; None if nothing is kept there."""
    environment = compile_environment(backend.target(), backend)
    if environment is None or store() is None:
        return None
    return [name_of(environment, *_kernel_key(kernel, tuned)) for kernel in kernels]


def load_named(names: Sequence[str], disk: Store, backend: Backend) -> list[KernelFunction] | None:
    """Return the functions of entries by name; None if one is missing or damaged."""
    functions: dict[str, KernelFunction] = {}
    for name in dict.fromkeys(names):
        if name not in functions:
            _load_named(name, functions, disk, backend)
        if name not in functions:
            return None
    counts.found += len(set(names))
    cache_counts.process_counts(disk.folder).kernel_hits += len(set(names))
    return [functions[name] for name in names]


def _compile(
    kernels: Sequence[UOp], target: Target, objects: ObjectCode, tuned: ActionsByKernel
) -> tuple[bytes, dict[str, KernelFunction]]:
    """Compile kernels; return the object code, and the functions by their names in it."""
    named: dict[str, list[UOp]] = {}

    def lowered() -> Iterator[tuple[str, list[UOp]]]:
        for name, instructions in _lower(kernels, target, tuned):
            named[name] = instructions
            yield name, instructions
            bar.step()

    text = f"kernels lowered and compiled: {len(kernels)},"
    with (
        debug.timed_step(text),
        compile_progress.progress_bar("compiling kernels", len(kernels)) as bar,
    ):
        code = objects.build(lowered(), len(kernels))
    with debug.timed_step(f"{len(code)} bytes of machine code linked"):
        addresses, alive = objects.link(code, list(named))
    return code, {
        n: kernel_function(instructions, addresses[n], alive) for n, instructions in named.items()
    }


def compile_environment(target: Target | None = None, backend: Backend | None = None) -> str | None:
    """Return all that the code of a kernel depends on beside its graph; None if unknown."""
    code = source_digest.digest()
    if code is None:
        log_once("nothing is taken from disk or kept there: the sources were changed or not found")
        return None
    compiler = backend.objects.version() if backend is not None and backend.objects else ""
    machine = "" if target is None else target_text(target)
    values = {s.name: s.value() for s in TABLE if s.name not in IRRELEVANT_SETTINGS}
    return json.dumps([code, compiler, machine, values], sort_keys=True)


def target_text(target: Target) -> str:
    """Return a target as text, the same in every process.

    >>> from porism.base.target import GENERIC_CPU
    >>> target_text(GENERIC_CPU)[:57]
    "block=() block_threads=1 converts=[] cores=1 dtypes=['boo"
    """
    rows = {field.name: getattr(target, field.name) for field in dataclasses.fields(target)}
    ordered = {n: sorted(v) if isinstance(v, frozenset) else v for n, v in rows.items()}
    return " ".join(f"{name}={value!r}" for name, value in sorted(ordered.items()))


def _kernel_key(kernel: UOp, tuned: ActionsByKernel) -> list[str | bytes]:
    """Return the key of a kernel: its structure, and its tuned actions if any."""
    actions = tuned.get(kernel)
    if actions is None:
        return [kernel.key]
    from porism.optimize.actions.action_serialization import write_actions

    return [kernel.key, json.dumps(write_actions(actions))]


def _lower(
    kernels: Sequence[UOp], target: Target, tuned: ActionsByKernel
) -> Iterator[tuple[str, list[UOp]]]:
    from porism.pipeline import lower_kernel  # not loaded where machine code comes from disk

    for number, kernel in enumerate(kernels):
        counts.compiled += 1
        with debug.timed_step(f"kernel {number} of {len(kernels)} lowered"):
            instructions = _lower_tuned(kernel, target, tuned[kernel]) if kernel in tuned else None
            instructions = instructions or lower_kernel(kernel, target)
        yield f"kernel{number}", instructions


def _lower_tuned(kernel: UOp, target: Target, actions: Sequence[Action]) -> list[UOp] | None:
    """Return a kernel lowered with tuned actions; None if the actions do not fit."""
    from porism.pipeline import lower_kernel

    try:
        return lower_kernel(kernel, target, actions=actions)
    except PorismError as error:
        log_once(f"the actions that a kernel was tuned with are not used: {error.what}")
        return None


# -- reading ---------------------------------------------------------------------------------------


def _load_kernels(
    names: Mapping[UOp, str], disk: Store, backend: Backend
) -> dict[UOp, KernelFunction]:
    """Return the functions of those kernels that are on disk."""
    loaded: dict[UOp, KernelFunction] = {}
    functions: dict[str, KernelFunction] = {}
    for kernel, name in names.items():
        if name not in functions:
            _load_named(name, functions, disk, backend)
        if name in functions:
            loaded[kernel] = functions[name]
    counts.found += len(loaded)
    return loaded


def _load_named(
    name: str, functions: dict[str, KernelFunction], disk: Store, backend: Backend
) -> None:
    """Add the functions of the module of a kernel that is on disk."""
    entry = disk.get("kernels", name)
    module = None if entry is None else _load_module(entry, disk, backend)
    if module is not None:
        functions.update(module.functions)


def _load_module(entry: bytes, disk: Store, backend: Backend) -> Module | None:
    """Return the linked module that the entry of a kernel names; None if it cannot be used."""
    try:
        name = json.loads(entry)["module"]
        if name in _modules:
            return _modules[name]
        content = disk.get("modules", name)
        if content is None:
            return None
        module = _link_module(content, backend)
    except UNREADABLE as error:
        log_once(f"a kept module is not used: {error}")
        return None
    disk.touch("kernels", module.functions)
    _insert_module(name, module)
    return module


def _link_module(content: bytes, backend: Backend) -> Module:
    assert backend.objects is not None
    head, _, code = content.partition(b"\n")
    table = json.loads(head)["functions"]
    addresses, alive = backend.objects.link(code, [row["name"] for row in table])
    return Module(
        {
            row["kernel"]: KernelFunction(
                addresses[row["name"]],
                tuple(row["buffers"]),
                tuple(row["variables"]),
                None if row["parallel"] is None else parse(row["parallel"]),
                alive,
            )
            for row in table
        }
    )


def forget_modules() -> None:
    """Clear the table of linked modules; functions in use stay loaded."""
    _modules.clear()


def _insert_module(name: str, module: Module) -> None:
    while len(_modules) >= MAX_MODULES:
        del _modules[next(iter(_modules))]
    _modules[name] = module


# -- writing ---------------------------------------------------------------------------------------


def _store_module(
    code: bytes, compiled: Mapping[str, tuple[str, KernelFunction]], disk: Store, environment: str
) -> None:
    """Write a module to disk and then, if that succeeded, the entries of its kernels."""
    table = [
        {
            "kernel": entry,
            "name": name,
            "buffers": function.buffers,
            "variables": function.variables,
            "parallel": None if function.parallel is None else to_text(function.parallel),
        }
        for entry, (name, function) in compiled.items()
    ]
    head = json.dumps({"made by": version_text(environment), "functions": table})
    content = head.encode() + b"\n" + code
    module = name_of(environment, content)
    if not disk.put("modules", module, content):
        return
    _insert_module(module, Module({entry: function for entry, (_, function) in compiled.items()}))
    for entry in compiled:
        if not disk.put("kernels", entry, json.dumps({"module": module}).encode()):
            return


def version_text(environment: str) -> str:
    """Return the versions of Porism and the compiler in a compile environment, for display."""
    code, compiler, *_ = json.loads(environment)
    return f"sources {code[:8]}, {compiler.split(',')[0]}"


def modules_by_version(disk: Store) -> dict[str, int]:
    """Return how many modules on disk there are of each version of Porism and the compiler."""
    modules: dict[str, int] = {}
    for entry in disk.entries():
        if entry.kind == "modules" and entry.finished:
            version = _module_version(disk.peek(entry.kind, entry.path.name))
            modules[version] = modules.get(version, 0) + 1
    return modules


def _module_version(content: bytes | None) -> str:
    if content is None:
        return "damaged"
    try:
        return str(json.loads(content.partition(b"\n")[0])["made by"])
    except (ValueError, KeyError, TypeError):
        return "unknown"
