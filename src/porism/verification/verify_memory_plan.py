"""Memory plan verification: temporaries that are live at the same time never share bytes.

A temporary is live from the kernel that writes it to the last one that reads it. Two that share
bytes of the arena must be live one after the other, and the kernel that writes the second must wait
for all that use the first: kernels that do not wait for each other may run in any order. A kernel
may only overwrite what it reads if it reads each element only for the same element of its result.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from porism.base.errors import VerifyError
from porism.ir import ops
from porism.ir.node import UOp
from porism.ir.traversal import toposort
from porism.schedule.inplace_outputs import overwrites_safely
from porism.schedule.schedule import Role, Schedule, launches

FIX = "this is a fault of Porism: report it with this message"


@dataclass(frozen=True, slots=True)
class _Temporary:
    """A temporary: its bytes in the arena, and the steps that use it."""

    name: str
    buffer: int
    begin: int
    end: int
    writer: int
    readers: tuple[int, ...]


def check_memory_plan(schedule: Schedule) -> int:
    """Raise a VerifyError if the plan is wrong; return the number of temporaries in it."""
    temporaries = [
        _temporary(schedule, k) for k, b in enumerate(schedule.buffers) if b.role is Role.TEMPORARY
    ]
    before = _predecessors(schedule)
    for value in temporaries:
        if not 0 <= value.begin <= value.end <= schedule.arena.peak:
            raise _fault(f"{value.name} leaves the arena", f"its bytes are {value.begin} … "
                         f"{value.end} of {schedule.arena.peak}")  # fmt: skip
    _check_dependencies(schedule, temporaries, before)
    for old, new in _overlapping_pairs(temporaries):
        _check_pair(schedule, old, new, before)
    for output, overwritten in schedule.in_place:
        _check_in_place(schedule, output, overwritten, before)
    _check_launches(schedule, before)
    return len(temporaries)


def _check_launches(schedule: Schedule, before: Sequence[int]) -> None:
    """Check that no kernel waits for another one of its launch."""
    for members in launches(schedule.steps):
        for k in members:
            for other in members:
                if before[k] >> other & 1 and k != other:
                    raise _fault(
                        f"step {k} is launched together with step {other}", "it waits for it"
                    )


def _check_in_place(
    schedule: Schedule, output: int, overwritten: int, before: Sequence[int]
) -> None:
    """Check that an input is read before an output is written in its memory."""
    (number,) = (k for k, step in enumerate(schedule.steps) if output in step.written)
    name = f"{schedule.buffers[output].name} over {schedule.buffers[overwritten].name}"
    for k, step in enumerate(schedule.steps):
        if k != number and overwritten in step.read and not before[number] >> k & 1:
            raise _fault(f"step {number} writes {name}", f"it does not wait for step {k}")
    step = schedule.steps[number]
    positions = step.buffers.index(output), step.buffers.index(overwritten)
    if not overwrites_safely(step.kernel, *positions):
        raise _fault(f"step {number} writes {name}", "it may store an element before it reads it")


def _check_dependencies(
    schedule: Schedule, temporaries: Sequence[_Temporary], before: Sequence[int]
) -> None:
    """Check that each step waits for the steps that write what it reads."""
    for number, step in enumerate(schedule.steps):
        for buffer in step.read:
            writer = next((v.writer for v in temporaries if v.buffer == buffer), None)
            if writer is not None and not before[number] >> writer & 1:
                raise _fault(
                    f"step {number} does not wait for what it reads",
                    f"{schedule.buffers[buffer].name} is written by step {writer}",
                )


def _overlapping_pairs(
    temporaries: Sequence[_Temporary],
) -> Iterator[tuple[_Temporary, _Temporary]]:
    """Yield temporaries that share bytes of the arena, the one that is written first first."""
    by_address = sorted(temporaries, key=lambda v: v.begin)
    for k, first in enumerate(by_address):
        for second in by_address[k + 1 :]:
            if second.begin >= first.end:
                break
            if first.end > first.begin and second.end > second.begin:
                old, new = sorted((first, second), key=lambda v: v.writer)
                yield old, new


def _temporary(schedule: Schedule, buffer: int) -> _Temporary:
    """Return a temporary with its bytes, its writer and its readers."""
    description = schedule.buffers[buffer]
    begin = schedule.arena.offsets[description.number]
    users = [(k, s.buffers.index(buffer)) for k, s in enumerate(schedule.steps)
             if buffer in s.buffers]  # fmt: skip
    writer = next(k for k, position in users if position == 0)
    readers = tuple(k for k, _ in users if k != writer)
    return _Temporary(description.name, buffer, begin, begin + description.bytes, writer, readers)


def _predecessors(schedule: Schedule) -> list[int]:
    """Return for each step a bit set of the steps that are finished when it begins."""
    predecessors: list[int] = []
    for number, step in enumerate(schedule.steps):
        bits = 0
        for earlier in step.after:
            if earlier >= number:
                raise _fault(f"step {number} waits for step {earlier}", "which comes later")
            bits |= 1 << earlier | predecessors[earlier]
        predecessors.append(bits)
    return predecessors


def _check_pair(
    schedule: Schedule, old: _Temporary, new: _Temporary, before: Sequence[int]
) -> None:
    """Check that a temporary is dead before another one in the same bytes is written."""
    for user in (old.writer, *old.readers):
        if user == new.writer:
            if not _is_in_place(schedule, old, new):
                raise _fault(
                    f"{new.name} is written over {old.name} while that is read",
                    f"step {user} reads other elements of it than those it writes",
                )
        elif not before[new.writer] >> user & 1:
            raise _fault(
                f"{old.name} and {new.name} share bytes of the arena while both are needed",
                f"step {new.writer} writes {new.name} and does not wait for step {user}, "
                f"which uses {old.name}; both have bytes {max(old.begin, new.begin)} … "
                f"{min(old.end, new.end)}",
            )


def _is_in_place(schedule: Schedule, old: _Temporary, new: _Temporary) -> bool:
    """Return whether the kernel of a temporary reads another one only at the stored element."""
    if (old.begin, old.end) != (new.begin, new.end):
        return False
    step = schedule.steps[new.writer]
    if step.buffers.count(old.buffer) != 1:
        return False
    return reads_only_stored_element(step.kernel, step.buffers.index(old.buffer))


def reads_only_stored_element(kernel: UOp, number: int) -> bool:
    """Return whether each element of a parameter is read only for the element stored there.

    A reduction may read the element again and again, as it is stored afterwards; but not one over a
    loop of the stored index, whose iterations read what others store.
    """
    nodes = toposort(kernel)
    stores = [n for n in nodes if n.op is ops.STORE]
    if len(stores) != 1:
        return False
    index = stores[0].src[0].src[1:]
    loops = {r for i in index for r in i.ranges}
    closing = (n for n in nodes if n.op is ops.REDUCE or n.op is ops.BUFFERIZE)
    if any(not loops.isdisjoint(n.src[1:]) and _depends(n, number) for n in closing):
        return False
    return all(
        n.src[1:] == index
        for n in nodes
        if n.op is ops.INDEX and n.src[0].op is ops.PARAM and n.src[0].arg == number
    )


def _depends(node: UOp, number: int) -> bool:
    return any(n.op is ops.PARAM and n.arg == number for n in toposort(node))


def _fault(what: str, why: str) -> VerifyError:
    return VerifyError(f"the plan of memory is wrong: {what}", where="schedule", why=why, fix=FIX)


def overwritten_parameter(schedule: Schedule, number: int) -> int | None:
    """Return the parameter of a step that its result overwrites; None if there is none."""
    step = schedule.steps[number]
    result = schedule.buffers[step.buffers[0]]
    if result.role is not Role.TEMPORARY:
        return None
    for k, buffer in enumerate(step.buffers):
        other = schedule.buffers[buffer]
        if k and other.role is Role.TEMPORARY and other.bytes == result.bytes and (
            schedule.arena.offsets[other.number] == schedule.arena.offsets[result.number]
        ):  # fmt: skip
            return k
    return None
