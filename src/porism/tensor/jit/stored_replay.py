"""Stored replays: replays on disk, so that a later process neither traces nor schedules.

    programs/DIGEST      the inputs and results of the replay, and the names of its other entries
    constants/DIGEST     its constants: what is computed of weights alone, and pre-packed weights
    schedules/DIGEST     (schedule cache)
    programs/DIGEST      (program cache)

Only a function whose *content* has a key is stored: a text that determines all that the function
computes, such as the digest of a model file. For a function in Python nobody knows such a key; it
is traced in each process. The name of an entry also depends on the signature, the compile
environment, and the sources of the functions on tensors. Entries are JSON and the bytes of arrays,
with digests that are checked before use; nothing is executed.

A replay that assigns tensors, keeps gradients, draws random numbers or has symbolic sizes is not
stored, nor one with more constants than `MAX_CONSTANT_SHARE` of the cache.
"""

from __future__ import annotations

import ctypes
import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from porism.backends.backend_table import selected_backend
from porism.base import device_use, source_digest
from porism.base.dtypes import DType, dtype, index
from porism.base.file_store import Store, log_once, name_of, store
from porism.base.settings import settings
from porism.engine.cache import schedule_cache
from porism.engine.cache.kernel_cache import UNREADABLE, compile_environment
from porism.engine.profile import program_observer
from porism.engine.run import array_allocator, realize
from porism.engine.run.backend_runners import prepare
from porism.engine.run.buffer_storage import Storage, node_storage
from porism.engine.run.program import FixedInputs
from porism.engine.tune.tuning_cache import TuningCache
from porism.ir import ops
from porism.ir.node import UOp
from porism.tensor.jit import replay as replays
from porism.tensor.jit.captured_constants import CallConstants, CapturedConstants
from porism.tensor.jit.nested_values import REQUIRES_GRADIENT
from porism.tensor.jit.replay import Replay, TensorSlot, Value

MAX_CONSTANT_SHARE: Final = 4
"""The constants of a replay take at most the limit of the cache divided by this; by hand."""

KIND, CONSTANTS = "programs", "constants"


@dataclass(frozen=True, slots=True)
class Content:
    """What a function computes, as a key, and what its trace tells beside the replay."""

    key: str
    """A text that determines all that the function computes."""
    note: Callable[[], Any]
    """Returns a value for JSON after the function was traced; None if it cannot be written."""
    restore: Callable[[Any], None]
    """Takes that value in place of a trace."""


def load(content: Content, signature: Sequence[Any], lock: Any) -> Replay | None:
    """Return the replay that an earlier process stored; None if there is none."""
    found = _entry(content, signature)
    if found is None or program_observer.observers or replays.value_checks or realize.value_checks:
        return None
    disk, name = found
    entry = disk.get(KIND, name)
    constants = None if entry is None else disk.get(CONSTANTS, name)
    if entry is None or constants is None:
        return None
    try:
        table = json.loads(entry)
        replay = _read(table, constants, disk, lock)
        if replay is not None:
            content.restore(table["note"])
        return replay
    except UNREADABLE as error:
        log_once(f"a kept replay is not used: {error}")
        return None


def keep(content: Content, signature: Sequence[Any], replay: Replay) -> None:
    """Store a replay, unless it has state or too many constants."""
    found = _entry(content, signature)
    schedule, program = replay.schedule, replay.constants.program
    if found is None or schedule is None or program is None or not schedule.key:
        return
    slots = _flat_results(replay)
    note = content.note()
    if slots is None or note is None or not _is_storable(replay):
        return
    disk, name = found
    arrays = _constant_arrays(replay)
    if arrays is None or sum(a.nbytes for a in arrays[1]) > disk.limit // MAX_CONSTANT_SHARE:
        return
    numbers, values = arrays
    table = {
        "schedule": schedule.key,
        "constants": sorted(program.constants),
        "arguments": replay.arguments,
        "inputs": numbers,
        "input count": replay.constants.input_count,
        "arrays": [[array.dtype.str, array.size] for array in values],
        "values": [
            [v.dtype.name, [int(d.arg) for d in v.dims], v.output, v.input, v.copied]
            for v in replay.values
        ],
        "result": slots,
        "note": note,
    }
    if disk.put(CONSTANTS, name, b"".join(_padded(values))):
        disk.put(KIND, name, json.dumps(table).encode())


def load_note(key: str) -> Any:
    """Return what `keep_note` has written for a key; None if there is nothing."""
    found = _named("note", key)
    entry = None if found is None else found[0].get(KIND, found[1])
    try:
        return None if entry is None else json.loads(entry)
    except UNREADABLE as error:
        log_once(f"a kept note is not used: {error}")
        return None


def keep_note(key: str, note: Any) -> None:
    """Write a value for JSON that tracing has found out, for later processes."""
    found = _named("note", key)
    if found is not None:
        found[0].put(KIND, found[1], json.dumps(note).encode())


def _entry(content: Content, signature: Sequence[Any]) -> tuple[Store, str] | None:
    """Return the store and the name of a replay's entry; None where replays are not stored."""
    text = _signature_text(signature)
    return None if text is None else _named("replay", content.key, text)


def _named(*key: str) -> tuple[Store, str] | None:
    """Return the store and the name of an entry; None where nothing of functions is stored."""
    disk = store()
    backend = selected_backend()
    if disk is None or backend.objects is None or settings.verify or settings.beam:
        return None
    if device_use.others_are_used:  # an entry is for the processor alone
        return None
    environment = compile_environment(backend.target(), backend)
    sources = source_digest.tracing_digest()
    if environment is None or sources is None or TuningCache(backend):
        return None
    return disk, name_of(environment, sources, str(settings.constants_megabytes), *key)


def _signature_text(parts: Sequence[Any]) -> str | None:
    """Return a signature as text; None if it has more than static tensors and settings."""
    texts = []
    for part in parts:
        if isinstance(part, (str, bool)) and part != REQUIRES_GRADIENT:
            texts.append(repr(part))
        elif part is np.ndarray:
            texts.append("array")
        elif isinstance(part, tuple) and len(part) == 2 and isinstance(part[0], DType):
            if not isinstance(part[1], tuple) or any(dim.op is not ops.CONST for dim in part[1]):
                return None
            texts.append(f"{part[0].name}{[int(dim.arg) for dim in part[1]]}")
        else:
            return None
    return "; ".join(texts)


# -- writing ---------------------------------------------------------------------------------------


def _flat_results(replay: Replay) -> list[int] | None:
    """Return the numbers of the results if the function returns a tuple of tensors."""
    result = replay.result
    if type(result) is not tuple or any(type(leaf) is not TensorSlot for leaf in result):
        return None
    return [leaf.number for leaf in result]


def _is_storable(replay: Replay) -> bool:
    """Return whether a replay depends on nothing but its arguments and constants."""
    captured = replay.captured or replay.mutable_types or replay.read_gradients
    return replay.is_stateless() and not captured


def _constant_arrays(replay: Replay) -> tuple[list[int], list[Any]] | None:
    """Return the numbers of the constant inputs, and their arrays followed by the packed ones.

    None if one of them may change, or is of a type that NumPy does not have.
    """
    constants, program = replay.constants, replay.constants.program
    assert program is not None
    given, _ = constants.current()
    if constants.latest is not given:
        return None
    tensor_of = dict(constants.inputs)
    read = program.read_inputs | {v.input for v in replay.values if v.output is None}
    numbers, arrays = [], []
    for number, storage in enumerate(given.inputs):
        if storage is not None and number in read:
            held: Storage = storage
            if number in tensor_of:
                held = node_storage(constants.tensors[tensor_of[number]]._node)
            numbers.append(number)
            arrays.append(held[0])
    arrays += [array for array, _ in given.fixed.packs]
    return (numbers, arrays) if all(a.dtype.kind in "biuf" for a in arrays) else None


def _padded(arrays: Sequence[Any]) -> Iterator[Any]:
    """Yield the bytes of arrays, each filled up to a multiple of the alignment of memory."""
    for array in arrays:
        yield array.tobytes()
        yield bytes(-array.nbytes % array_allocator.ALIGNMENT)


# -- reading ---------------------------------------------------------------------------------------


def _read(table: Any, content: bytes, disk: Store, lock: Any) -> Replay | None:
    """Return the replay of an entry and its constants; None if its schedule is not on disk."""
    schedule = schedule_cache.load(table["schedule"], disk)
    if schedule is None:
        return None
    program = prepare(schedule, frozenset(table["constants"]))
    numbers = table["inputs"]
    storages = _storages(table["arrays"], content)
    packs = storages[len(numbers) :]
    sizes = [array.nbytes for array, _ in packs]
    if sizes != [copy.size * copy.dtype.numpy.itemsize for copy in program.copies]:
        raise ValueError("the constants are those of another program")
    inputs: list[Storage | None] = [None] * table["input count"]
    for number, storage in zip(numbers, storages[: len(numbers)], strict=True):
        inputs[number] = storage
    values = [_value(*row) for row in table["values"]]
    result = tuple([TensorSlot(number) for number in table["result"]])
    if not all(slot.number in range(len(values)) for slot in result):
        raise ValueError("a result is none of the values")
    varying = frozenset(number for number, _ in table["arguments"])
    constants = CapturedConstants(
        tensors=[], input_count=len(inputs), inputs=[], literals=[], constant_program=None,
        program=program, precomputed=frozenset(),
    )  # fmt: skip
    constants.latest = CallConstants([], inputs, FixedInputs(packs, varying), program)
    return Replay(
        schedule=schedule,
        arguments=[(number, which) for number, which in table["arguments"]],
        captured=[], constants=constants, streams=[], variables={},
        values=values, result=result,
        assignments=[], gradients=[], leaves=[], read_gradients=[], captured_types=[],
        mutable_types=[], locations=[], cells=[], devices=[], lock=lock,
    )  # fmt: skip


def _value(name: str, dims: Sequence[int], output: int | None, number: int, copied: bool) -> Value:
    sizes: tuple[UOp, ...] = tuple([UOp.const(index, dim) for dim in dims])
    return Value(dtype(name), sizes, False, output, number, copied)


def _storages(rows: Sequence[tuple[str, int]], content: bytes) -> list[Storage]:
    """Return the arrays in the bytes of an entry, in aligned memory."""
    owner, address = array_allocator.allocate(len(content))
    ctypes.memmove(address, content, len(content))
    found: list[Storage] = []
    offset = 0
    for text, size in rows:
        kind = np.dtype(text)
        if kind.kind not in "biuf" or size < 0 or offset + size * kind.itemsize > len(content):
            raise ValueError("the constants are shorter than the entry says")
        found.append((np.frombuffer(owner, kind, size, offset), address + offset))
        offset += -(-size * kind.itemsize // array_allocator.ALIGNMENT) * array_allocator.ALIGNMENT
    if offset != len(content):
        raise ValueError("the constants are longer than the entry says")
    return found
