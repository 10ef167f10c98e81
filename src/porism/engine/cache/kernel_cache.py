"""Cache: kernels that an earlier process has compiled, taken from disk.

The kernels that a program lacks are compiled together, and kept together: a *module* is their
machine code with a table of what each needs to be called. For each kernel there is also a small
entry that names its module. So a later process that runs the same program reads two files, neither
lowers nor compiles, and another program that shares some kernels finds those.

The name of an entry is a digest of the kernel's structure and of all else that the code depends on:
the compiler and its version, the machine, the settings, and the source code of Porism itself, with
its version. What describes a kernel is numbers and texts, and reading it executes nothing.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from porism.backends.backend_table import Backend, Objects
from porism.backends.kernel_function import Function, function
from porism.base import debug, source_digest
from porism.base.errors import PorismError
from porism.base.file_store import Store, name_of, note, store
from porism.base.settings import TABLE
from porism.base.target import Target
from porism.engine.cache import cache_counts
from porism.engine.profile import compile_progress
from porism.ir.node import UOp
from porism.ir.text.serialization import parse, to_text
from porism.optimize.actions.action import Action
from porism.optimize.actions.action_serialization import write_actions
from porism.pipeline import lower_kernel

WITHOUT_EFFECT: Final = frozenset(
    ("debug", "trace", "rewrite_limit", "backend", "threads", "cache", "cache_dir", "cache_mb",
     "pool_megabytes", "jit_signatures", "constants_megabytes", "beam", "beam_seconds", "progress",
     "verify", "verify_ms")
)  # fmt: skip
"""Settings that do not change what is compiled. Of one that is not here, it is assumed that it
does; `check` is one: what was compiled without checks does not do for one who asks for them."""

UNREADABLE: Final = (
    ValueError, LookupError, TypeError, AttributeError, RuntimeError, OSError, PorismError,
)  # fmt: skip
"""What reading and linking an entry of another form may raise."""

MOST_MODULES: Final = 1000
"""Linked modules that are remembered by name; the oldest goes first."""


@dataclass(slots=True)
class Counts:
    """What has been found and made in this process."""

    found: int = 0
    compiled: int = 0


counts: Final = Counts()


@dataclass(frozen=True, slots=True)
class Module:
    """Kernels in machine code, by the names of their entries."""

    functions: Mapping[str, Function]


_modules: dict[str, Module] = {}


Tuned = Mapping[UOp, Sequence[Action]]
"""Kernels that are compiled with other actions than those of the heuristic."""


def functions(
    kernels: Sequence[UOp], backend: Backend, tuned: Tuned | None = None
) -> dict[UOp, Function]:
    """Kernels in machine code: found on disk, or compiled together and kept."""
    tuned = tuned or {}
    assert backend.load is not None, "the evaluator has no machine code"
    target = backend.target()
    if backend.objects is None:
        loaded = backend.load(dict(_lowered(kernels, target, tuned)))
        return dict(zip(kernels, loaded.values(), strict=True))
    kept = store()
    base = surroundings(target, backend) if kept is not None else None
    if kept is None or base is None:
        made = _made(kernels, target, backend.objects, tuned)[1]
        return dict(zip(kernels, made.values(), strict=True))
    names = {kernel: name_of(base, *_key(kernel, tuned)) for kernel in kernels}
    found = _found(names, kept, backend)
    missing = [kernel for kernel in kernels if kernel not in found]
    tally = cache_counts.of(kept.folder)
    tally.kernels_found += len(found)
    tally.kernels_made += len(missing)
    if debug.level() >= debug.COMPILING:
        debug.say(f"kernels found on disk: {len(found)} of {len(kernels)}")
    if missing:
        code, made = _made(missing, target, backend.objects, tuned)
        found |= zip(missing, made.values(), strict=True)
        rows = zip(missing, made.items(), strict=True)
        _keep(code, {names[kernel]: row for kernel, row in rows}, kept, base)
    return found


def _made(
    kernels: Sequence[UOp], target: Target, objects: Objects, tuned: Tuned
) -> tuple[bytes, dict[str, Function]]:
    """Kernels in machine code: the bytes, and functions by the names that they have there."""
    named: dict[str, list[UOp]] = {}

    def lowered() -> Iterator[tuple[str, list[UOp]]]:
        for name, lines in _lowered(kernels, target, tuned):
            named[name] = lines
            yield name, lines
            bar.step()

    text = f"kernels lowered and compiled: {len(kernels)},"
    with debug.step(text), compile_progress.bar("compiling kernels", len(kernels)) as bar:
        code = objects.build(lowered(), len(kernels))
    with debug.step(f"{len(code)} bytes of machine code linked"):
        addresses, alive = objects.link(code, list(named))
    return code, {n: function(lines, addresses[n], alive) for n, lines in named.items()}


def surroundings(target: Target | None = None, backend: Backend | None = None) -> str | None:
    """All that a compiled kernel depends on beside itself; None if that is not known."""
    code = source_digest.digest()
    if code is None:
        note("nothing is taken from disk or kept there: the sources were changed or not found")
        return None
    compiler = backend.objects.version() if backend is not None and backend.objects else ""
    machine = "" if target is None else target_text(target)
    values = {s.name: s.value() for s in TABLE if s.name not in WITHOUT_EFFECT}
    return json.dumps([code, compiler, machine, values], sort_keys=True)


def target_text(target: Target) -> str:
    """A target as text, the same in every process.

    >>> from porism.base.target import GENERIC_CPU
    >>> target_text(GENERIC_CPU)[:57]
    "block=() block_threads=1 converts=[] cores=1 dtypes=['boo"
    """
    rows = {field.name: getattr(target, field.name) for field in dataclasses.fields(target)}
    ordered = {n: sorted(v) if isinstance(v, frozenset) else v for n, v in rows.items()}
    return " ".join(f"{name}={value!r}" for name, value in sorted(ordered.items()))


def _key(kernel: UOp, tuned: Tuned) -> list[str | bytes]:
    """What tells a kernel from others: its structure, and the actions that it is tuned with."""
    actions = tuned.get(kernel)
    return [kernel.key] if actions is None else [kernel.key, json.dumps(write_actions(actions))]


def _lowered(
    kernels: Sequence[UOp], target: Target, tuned: Tuned
) -> Iterator[tuple[str, list[UOp]]]:
    for number, kernel in enumerate(kernels):
        counts.compiled += 1
        with debug.step(f"kernel {number} of {len(kernels)} lowered"):
            lines = _tuned_lines(kernel, target, tuned[kernel]) if kernel in tuned else None
            lines = lines or lower_kernel(kernel, target)
        yield f"kernel{number}", lines


def _tuned_lines(kernel: UOp, target: Target, actions: Sequence[Action]) -> list[UOp] | None:
    """A kernel after actions that may have come from another machine; None if they do not fit."""
    try:
        return lower_kernel(kernel, target, actions=actions)
    except PorismError as error:
        note(f"the actions that a kernel was tuned with are not used: {error.what}")
        return None


# -- reading ---------------------------------------------------------------------------------------


def _found(names: Mapping[UOp, str], kept: Store, backend: Backend) -> dict[UOp, Function]:
    """Those of the kernels that are on disk."""
    found: dict[UOp, Function] = {}
    seen: dict[str, Function] = {}
    for kernel, name in names.items():
        if name not in seen:
            entry = kept.get("kernels", name)
            module = None if entry is None else _module(entry, kept, backend)
            if module is not None:
                seen.update(module.functions)
        if name in seen:
            found[kernel] = seen[name]
    counts.found += len(found)
    return found


def _module(entry: bytes, kept: Store, backend: Backend) -> Module | None:
    """The module that the entry of a kernel names, linked."""
    try:
        name = json.loads(entry)["module"]
        if name in _modules:
            return _modules[name]
        content = kept.get("modules", name)
        if content is None:
            return None
        module = _linked(content, backend)
    except UNREADABLE as error:
        note(f"a kept module is not used: {error}")
        return None
    kept.touch("kernels", module.functions)
    _remember(name, module)
    return module


def _linked(content: bytes, backend: Backend) -> Module:
    assert backend.objects is not None
    head, _, code = content.partition(b"\n")
    table = json.loads(head)["functions"]
    addresses, alive = backend.objects.link(code, [row["name"] for row in table])
    return Module(
        {
            row["kernel"]: Function(
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
    """Let go of modules; the kernels that are used stay."""
    _modules.clear()


def _remember(name: str, module: Module) -> None:
    while len(_modules) >= MOST_MODULES:
        del _modules[next(iter(_modules))]
    _modules[name] = module


# -- writing ---------------------------------------------------------------------------------------


def _keep(code: bytes, made: Mapping[str, tuple[str, Function]], kept: Store, base: str) -> None:
    """Keep a module and, when that is there, the entries of its kernels."""
    table = [
        {
            "kernel": entry,
            "name": name,
            "buffers": each.buffers,
            "variables": each.variables,
            "parallel": None if each.parallel is None else to_text(each.parallel),
        }
        for entry, (name, each) in made.items()
    ]
    head = json.dumps({"made by": made_by(base), "functions": table})
    content = head.encode() + b"\n" + code
    module = name_of(base, content)
    if not kept.put("modules", module, content):
        return
    _remember(module, Module({entry: each for entry, (_, each) in made.items()}))
    for entry in made:
        if not kept.put("kernels", entry, json.dumps({"module": module}).encode()):
            return


def made_by(base: str) -> str:
    """The versions in a text of surroundings, for people."""
    code, compiler, *_ = json.loads(base)
    return f"sources {code[:8]}, {compiler.split(',')[0]}"


def makers(kept: Store) -> dict[str, int]:
    """How many modules there are of each version of Porism and of the compiler."""
    found: dict[str, int] = {}
    for entry in kept.entries():
        if entry.kind == "modules" and entry.finished:
            maker = _maker(kept.peek(entry.kind, entry.path.name))
            found[maker] = found.get(maker, 0) + 1
    return found


def _maker(content: bytes | None) -> str:
    if content is None:
        return "damaged"
    try:
        return str(json.loads(content.partition(b"\n")[0])["made by"])
    except (ValueError, KeyError, TypeError):
        return "unknown"
