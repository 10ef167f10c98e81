"""Fast path: a call like the last one skips the search for a matching trace.

A call of a jitted function computes the signature of its arguments, finds the trace of that
signature, gathers the inputs of the program, and wraps its outputs. Usually the next call has the
same signature: its tensors are in memory, of the same shapes and types; all other arguments are the
same objects; and the function assigns to nothing. Then one check of the arguments yields the
inputs, and nothing is looked up. Any other call takes the slow path.

The check is Python code generated for the number of arguments, without a loop.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from porism.base.settings import unoverridden
from porism.engine.run.buffer_storage import Storage
from porism.ir import ops
from porism.ir.buffer_node import new_buffer
from porism.tensor.jit.captured_constants import storage_of
from porism.tensor.jit.nested_values import Signature, is_compared_by_identity, unbound_shape
from porism.tensor.jit.tracing import current
from porism.tensor.tensor import Tensor

if TYPE_CHECKING:
    from porism.tensor.jit.replay import Replay

MISSED: Final = object()
"""Returned in place of a result if the call does not fit the fast path."""

MOST_ARGUMENTS: Final = 8
"""The most arguments of a call that has a fast path; chosen by hand."""

_NO_VARIABLES: Final[Mapping[str, int]] = {}
_new: Final = Tensor.__new__

Check = Callable[[Collection[Any], Collection[Any]], list[Storage] | None]
"""Takes positional and keyword arguments; returns the storage of the tensors among them, or None if
the arguments do not fit."""


class FastPath:
    """The fast path to one trace."""

    __slots__ = (
        "argument_inputs", "arguments_are_inputs", "check", "has_captured", "keywords",
        "positional", "replay", "settings", "single_output",
    )  # fmt: skip

    def __init__(self, replay: Replay, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> None:
        arguments = (*args, *kwargs.values())
        self.replay = replay
        self.settings: Any = None
        """The settings under which the fast path may be taken; None if it may not."""
        self.keywords = [*kwargs]
        self.positional = len(args)
        self.check = argument_check(args, tuple(kwargs.values()))
        tensors = sum(value.__class__ is Tensor for value in arguments)
        input_of = {which: number for number, which in replay.arguments}
        self.argument_inputs = [(input_of[k], k) for k in range(tensors) if k in input_of]
        """Inputs of the program, and which tensor of the arguments each is."""
        inputs = [input_of.get(k) for k in range(tensors)]
        self.arguments_are_inputs = inputs == [*range(replay.constants.input_count)]
        """Whether the tensors of the arguments are all inputs of the program, in order."""
        self.has_captured = bool(replay.captured_types or replay.locations or replay.cells)
        self.single_output = replay.single_output()

    def enable(self) -> FastPath:
        """Allow calls under the present settings to take the fast path."""
        self.settings = unoverridden()
        return self

    def call(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
        """Return the result of the function, or MISSED if the call does not fit."""
        settings = unoverridden()
        if current.get() is not None or settings is None or settings is not self.settings:
            return MISSED
        if len(args) != self.positional:
            return MISSED
        if (kwargs or self.keywords) and [*kwargs] != self.keywords:
            return MISSED
        storage = self.check(args, kwargs.values())
        if storage is None:
            return MISSED
        replay = self.replay
        unchanged = replay.unchanged_constants() if self.has_captured else replay.call_constants()
        if unchanged is None:
            return MISSED
        constants, buffers = unchanged
        inputs = storage
        if not self.arguments_are_inputs:
            inputs = constants.inputs.copy()
            for number, which in self.argument_inputs:
                inputs[number] = storage[which]
            for number, tensor in replay.captured:
                inputs[number] = storage_of(tensor)
        program, single = constants.program, self.single_output
        outputs = [] if program is None else program.run(inputs, _NO_VARIABLES, constants.packs)
        del buffers  # kept alive until here
        if single is None:
            return replay.results(replay.nodes(inputs, outputs, _NO_VARIABLES), _NO_VARIABLES)
        dtype, dims, output = single
        value = _new(Tensor)
        value._leaf = None
        value._node = new_buffer(dtype, dims, "cpu", outputs[output])
        return value


def fast_path_of(
    replay: Replay, signature: Signature, args: tuple[Any, ...], kwargs: Mapping[str, Any]
) -> FastPath | None:
    """Return the fast path for calls like this one, if there is one."""
    arguments = (*args, *kwargs.values())
    if len(arguments) > MOST_ARGUMENTS or signature.variables or not replay.is_stateless():
        return None
    others = [value for value in arguments if value.__class__ is not Tensor]
    tensors = [value for value in arguments if value.__class__ is Tensor]
    if len(set(map(id, tensors))) < len(signature.tensors):
        return None  # some are inside of containers, or one is passed twice
    return FastPath(replay, args, kwargs) if all(map(is_compared_by_identity, others)) else None


# -- checking the arguments ------------------------------------------------------------------------


def argument_check(given: Sequence[Any], named: Sequence[Any] = ()) -> Check:
    """Return the check whether arguments fit those given, positional and keyword ones."""
    expected: list[Any] = []
    for value in (*given, *named):
        if value.__class__ is Tensor:
            expected += (value._node.dtype, unbound_shape(value._node, {}))
        else:
            expected.append(value)
    tensors = tuple(value.__class__ is Tensor for value in (*given, *named))
    return _compiled_check(tensors, len(given))(*expected)


@functools.lru_cache(256)
def _compiled_check(tensors: tuple[bool, ...], given: int) -> Callable[..., Check]:
    """Return the compiled factory of checks; `tensors` says which arguments are tensors."""
    names: dict[str, Any] = {"Tensor": Tensor, "BUFFER": ops.BUFFER}
    exec(check_source(tensors, given), names)
    factory: Callable[..., Check] = names["argument_check"]
    return factory


def check_source(tensors: Sequence[bool], given: int) -> str:
    """Return the Python source of that factory; the first `given` arguments are positional.

    >>> print(check_source([True, False], given=1))
    def argument_check(dtype0, dims0, other1):
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
    expected = [f"dtype{k}, dims{k}" if t else f"other{k}" for k, t in enumerate(tensors)]
    first = [
        f"x{k}.__class__ is Tensor" if t else f"x{k} is other{k}" for k, t in enumerate(tensors)
    ]
    first += [f"x{a} is not x{b}" for a, b in itertools.combinations(some, 2)]
    second = [f"n{k}.op is BUFFER and n{k}.dtype is dtype{k} and n{k}.src == dims{k}" for k in some]
    lines = [
        f"def argument_check({', '.join(expected)}):",
        "    def check(given, named):",
        *(f"        {names}= {source}" for names, source in _unpacking(len(tensors), given)),
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


def _unpacking(count: int, given: int) -> Iterator[tuple[str, str]]:
    """Yield the names of positional and of keyword arguments, and what they are unpacked from."""
    names = [f"x{k}, " for k in range(count)]
    if given:
        yield "".join(names[:given]), "given"
    if given < count:
        yield "".join(names[given:]), "named"
