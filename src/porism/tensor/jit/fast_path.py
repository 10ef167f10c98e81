"""Short: the way of a call that is like the last one, without a look at what cannot matter.

A call of a jitted function finds out what kind of arguments it has, looks for the trace of that
kind, asks it for its inputs, and wraps what it has computed. As a rule the next call is of the same
kind: its tensors are in memory, and of the same shapes and types; all else is the same; and the
function assigns to nothing. Then the inputs are taken while that is checked, and nothing is looked
up. A call of another kind goes the long way.

What checks the arguments is written in Python for their number, and has no loop.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from porism.base.settings import plain
from porism.engine.run.buffer_storage import Held
from porism.ir import ops
from porism.ir.buffer_node import new_buffer
from porism.tensor.jit.captured_constants import held_of
from porism.tensor.jit.nested_values import Signature, is_told_by_identity, unbound
from porism.tensor.jit.tracing import current
from porism.tensor.tensor import Tensor

if TYPE_CHECKING:
    from porism.tensor.jit.replay import Replay

MISSED: Final = object()
"""In place of a result: the call is of another kind."""

MOST_ARGUMENTS: Final = 8
"""Of a call that has a short way."""

_NOTHING: Final[Mapping[str, int]] = {}
_new: Final = Tensor.__new__

Check = Callable[[Collection[Any], Collection[Any]], list[Held] | None]
"""Where the values of the tensors among arguments, by place and by name, are; None if they are of
another kind."""


class Short:
    """The short way to what a trace gives."""

    __slots__ = (
        "are_inputs", "check", "count", "names", "outside", "places", "replay", "single", "values",
    )  # fmt: skip

    def __init__(self, replay: Replay, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> None:
        given = (*args, *kwargs.values())
        self.replay = replay
        self.values: Any = None
        """The settings under which it may be gone; None for none."""
        self.names = [*kwargs]
        self.count = len(args)
        self.check = check_of(args, tuple(kwargs.values()))
        tensors = sum(value.__class__ is Tensor for value in given)
        places = {which: place for place, which in replay.arguments}
        self.places = [(places[k], k) for k in range(tensors) if k in places]
        """Inputs, and which tensor of the arguments each is."""
        self.are_inputs = [places.get(k) for k in range(tensors)] == [*range(replay.lasting.count)]
        """Whether the tensors of the arguments are the inputs, all of them and in this order."""
        self.outside = bool(replay.outside or replay.named or replay.cells)
        self.single = replay.single()

    def open(self) -> Short:
        """Let calls under the settings of this moment go it."""
        self.values = plain()
        return self

    def call(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
        """What the function gives, or MISSED."""
        values = plain()
        if current.get() is not None or values is None or values is not self.values:
            return MISSED
        if len(args) != self.count or ((kwargs or self.names) and [*kwargs] != self.names):
            return MISSED
        given = self.check(args, kwargs.values())
        if given is None:
            return MISSED
        replay = self.replay
        found = replay.at_hand() if self.outside else replay.made()
        if found is None:
            return MISSED
        made, buffers = found
        inputs = given
        if not self.are_inputs:
            inputs = made.inputs.copy()
            for place, which in self.places:
                inputs[place] = given[which]
            for place, tensor in replay.captured:
                inputs[place] = held_of(tensor)
        program, single = made.program, self.single
        outputs = [] if program is None else program.run(inputs, _NOTHING, made.packs)
        del buffers  # they were in use until here
        if single is None:
            return replay.results(replay.nodes(inputs, outputs, _NOTHING), _NOTHING)
        dtype, dims, output = single
        value = _new(Tensor)
        value._node = new_buffer(dtype, dims, "cpu", outputs[output])
        return value


def short_of(
    replay: Replay, signature: Signature, args: tuple[Any, ...], kwargs: Mapping[str, Any]
) -> Short | None:
    """The short way for calls like this one, if there is one."""
    given = (*args, *kwargs.values())
    if len(given) > MOST_ARGUMENTS or signature.variables or not replay.is_plain():
        return None
    others = [value for value in given if value.__class__ is not Tensor]
    tensors = [value for value in given if value.__class__ is Tensor]
    if len(set(map(id, tensors))) < len(signature.tensors):
        return None  # or some are inside of others
    return Short(replay, args, kwargs) if all(map(is_told_by_identity, others)) else None


# -- checking the arguments ------------------------------------------------------------------------


def check_of(given: Sequence[Any], named: Sequence[Any] = ()) -> Check:
    """What checks whether as many arguments are of the same kind as those given."""
    told: list[Any] = []
    for value in (*given, *named):
        if value.__class__ is Tensor:
            told += (value._node.dtype, unbound(value._node, {}))
        else:
            told.append(value)
    tensors = tuple(value.__class__ is Tensor for value in (*given, *named))
    return _written(tensors, len(given))(*told)


@functools.lru_cache(256)
def _written(tensors: tuple[bool, ...], given: int) -> Callable[..., Check]:
    """For arguments some of which are tensors, what makes a check of what is told of them."""
    names: dict[str, Any] = {"Tensor": Tensor, "BUFFER": ops.BUFFER}
    exec(text_of(tensors, given), names)
    found: Callable[..., Check] = names["check_of"]
    return found


def text_of(tensors: Sequence[bool], given: int) -> str:
    """The same in Python, for so many arguments by place and the others by name.

    >>> print(text_of([True, False], given=1))
    def check_of(dtype0, dims0, other1):
        def check(given, named):
            x0, = given
            x1, = named
            if x0.__class__ is Tensor and x1 is other1:
                n0 = x0._node
                if n0.op is BUFFER and n0.dtype is dtype0 and n0.src == dims0:
                    held0 = n0.held
                    if held0 is not None:
                        return [held0]
            return None
        return check
    """
    some = [k for k, is_tensor in enumerate(tensors) if is_tensor]
    told = [f"dtype{k}, dims{k}" if t else f"other{k}" for k, t in enumerate(tensors)]
    first = [
        f"x{k}.__class__ is Tensor" if t else f"x{k} is other{k}" for k, t in enumerate(tensors)
    ]
    first += [f"x{one} is not x{two}" for one, two in itertools.combinations(some, 2)]
    second = [f"n{k}.op is BUFFER and n{k}.dtype is dtype{k} and n{k}.src == dims{k}" for k in some]
    lines = [
        f"def check_of({', '.join(told)}):",
        "    def check(given, named):",
        *(f"        {names}= {place}" for names, place in _unpacked(len(tensors), given)),
        f"        if {' and '.join(first) or 'True'}:",
        *(f"            n{k} = x{k}._node" for k in some),
        f"            if {' and '.join(second) or 'True'}:",
        *(f"                held{k} = n{k}.held" for k in some),
        f"                if {' and '.join(f'held{k} is not None' for k in some) or 'True'}:",
        f"                    return [{', '.join(f'held{k}' for k in some)}]",
        "        return None",
        "    return check",
    ]
    return "\n".join(lines)


def _unpacked(count: int, given: int) -> Iterator[tuple[str, str]]:
    """The names of arguments, where there are some, and what they are taken from."""
    names = [f"x{k}, " for k in range(count)]
    if given:
        yield "".join(names[:given]), "given"
    if given < count:
        yield "".join(names[given:]), "named"
