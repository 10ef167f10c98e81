"""Program cache: which functions run a schedule, on disk, so that a later process asks no compiler.

    programs/DIGEST   {"kernels": [name, …], "copies": [...], …}    one entry for each program

A program is a schedule with constant inputs for a backend. Its kernels with constant weights are
scheduled in order to find out how the weights are packed; an entry has the result: the names of
the compiled kernels in the kernel cache, and which packed copies they read. The key is a digest of
the schedule's own name, which has all that scheduling depends on, the compile environment, and the
numbers of the constant inputs. Where kernels were tuned, programs are neither kept nor loaded.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from porism.backends.backend_table import Backend
from porism.backends.kernel_function import KernelFunction
from porism.base.dtypes import DType, dtype
from porism.base.file_store import Store, log_once, name_of, store
from porism.engine.cache import kernel_cache
from porism.engine.cache.kernel_cache import UNREADABLE, compile_environment
from porism.schedule.schedule import Schedule


@dataclass(frozen=True, slots=True)
class ConstantCopy:
    """A prepacked copy of a constant input: the constant in the order in which kernels read it."""

    source: int
    """The number of the input."""
    size: int
    """Elements."""
    dtype: DType
    axes: tuple[str, ...]
    """The names of the loops that it is packed for, the innermost last."""


@dataclass(frozen=True, slots=True)
class CompiledSchedule:
    """The functions that run a schedule, and the prepacked copies of constants that they read."""

    functions: Sequence[KernelFunction]
    """The function of each step."""
    pack_functions: Sequence[KernelFunction]
    """The function that makes each copy."""
    copies: Sequence[ConstantCopy]
    copy_of_parameter: Mapping[tuple[int, int], int]
    """The number of the copy by step and PARAM number of its kernel."""
    variables: Sequence[str]
    """The names of the variables that kernels and sizes of buffers depend on, sorted."""
    node_evaluations: float
    """How many nodes all kernels evaluate in a run, at most; 0 where it depends on variables."""


def load(
    schedule: Schedule, backend: Backend, constants: frozenset[int]
) -> CompiledSchedule | None:
    """Return what an earlier process compiled a schedule to; None if that is not on disk."""
    disk = store()
    name = None if disk is None else _name(schedule, backend, constants)
    content = None if disk is None or name is None else disk.get("programs", name)
    if disk is None or content is None:
        return None
    try:
        return _read(json.loads(content), len(schedule.steps), disk, backend)
    except UNREADABLE as error:
        log_once(f"a kept program is not used: {error}")
        return None


def keep(
    schedule: Schedule,
    backend: Backend,
    constants: frozenset[int],
    compiled: CompiledSchedule,
    names: Sequence[str],
) -> None:
    """Write what a schedule was compiled to; `names` are the entries of its functions on disk."""
    disk = store()
    name = None if disk is None else _name(schedule, backend, constants)
    if disk is None or name is None:
        return
    steps = len(compiled.functions)
    table = {
        "functions": names[:steps],
        "pack": names[steps:],
        "copies": [[c.source, c.size, c.dtype.name, c.axes] for c in compiled.copies],
        "parameters": [[*key, copy] for key, copy in compiled.copy_of_parameter.items()],
        "variables": compiled.variables,
        "evaluations": compiled.node_evaluations,
    }
    disk.put("programs", name, json.dumps(table).encode())


def _name(schedule: Schedule, backend: Backend, constants: frozenset[int]) -> str | None:
    """Return the name of a program's entry; None if programs of the schedule are not kept."""
    if not schedule.key or backend.objects is None:
        return None
    environment = compile_environment(backend.target(), backend)
    if environment is None:
        return None
    return name_of(environment, schedule.key, json.dumps(sorted(constants)))


def _read(
    table: Mapping[str, Any], steps: int, disk: Store, backend: Backend
) -> CompiledSchedule | None:
    names, pack = table["functions"], table["pack"]
    copies = [
        ConstantCopy(source, size, dtype(name), tuple(axes))
        for source, size, name, axes in table["copies"]
    ]
    if len(names) != steps or len(pack) != len(copies):
        raise ValueError("an entry for another program")
    functions = kernel_cache.load_named([*names, *pack], disk, backend)
    if functions is None:
        return None
    return CompiledSchedule(
        functions[:steps],
        functions[steps:],
        copies,
        {(step, number): copy for step, number, copy in table["parameters"]},
        tuple(table["variables"]),
        float(table["evaluations"]),
    )
