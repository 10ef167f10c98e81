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
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

from porism.base import device_use
from porism.base.settings import unoverridden
from porism.engine.run.buffer_storage import Storage, device_name_of
from porism.ir import ops
from porism.ir.buffer_node import new_buffer
from porism.tensor.jit.captured_constants import storage_of
from porism.tensor.jit.nested_values import (
    Signature,
    is_compared_by_identity,
    tensor_parts,
    unbound_shape,
)
from porism.tensor.jit.tracing import current
from porism.tensor.tensor import Tensor

if TYPE_CHECKING:
    from porism.tensor.jit.replay import ComputedOutput, Replay

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
        "argument_inputs", "arguments_are_inputs", "check", "complex_output", "device",
        "has_captured", "keywords", "knows_devices", "positional", "replay", "settings",
        "single_output",
    )  # fmt: skip

    def __init__(self, replay: Replay, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> None:
        arguments = (*args, *kwargs.values())
        self.replay = replay
        self.settings: Any = None
        """The settings under which the fast path may be taken; None if it may not."""
        self.keywords = [*kwargs]
        self.positional = len(args)
        self.check = argument_check(args, tuple(kwargs.values()))
        self.device = replay.device
        self.knows_devices = False
        """Whether the check includes the devices of the tensors."""
        tensors = sum(len(tensor_parts(value)) for value in arguments)
        input_of = {which: number for number, which in replay.arguments}
        self.argument_inputs = [(input_of[k], k) for k in range(tensors) if k in input_of]
        """Inputs of the program, and which tensor of the arguments each is."""
        inputs = [input_of.get(k) for k in range(tensors)]
        self.arguments_are_inputs = inputs == [*range(replay.constants.input_count)]
        """Whether the tensors of the arguments are all inputs of the program, in order."""
        self.has_captured = bool(replay.captured_types or replay.locations or replay.cells)
        self.single_output = replay.single_output()
        self.complex_output = replay.complex_output()

    def enable(self) -> FastPath:
        """Allow calls under the present settings to take the fast path."""
        if device_use.others_are_used and not self.knows_devices:
            self.check = _on_device(self.check, self.device)
            self.knows_devices = True
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
        outputs = [] if program is None else program.run(inputs, _NO_VARIABLES, constants.fixed)
        del buffers  # kept alive until here
        if single is None:
            pair = self.complex_output
            if pair is not None:
                kind, real, imag = pair
                device = self.device
                return kind(_result(real, outputs, device), _result(imag, outputs, device))
            return replay.results(replay.nodes(inputs, outputs, _NO_VARIABLES), _NO_VARIABLES)
        dtype, dims, output = single
        value = _new(Tensor)
        value._leaf = None
        value._node = new_buffer(dtype, dims, self.device, outputs[output])
        return value


def _on_device(check: Check, device: str) -> Check:
    """Return a check that also refuses tensors on other devices than the program's."""

    def checked(given: Collection[Any], named: Collection[Any]) -> list[Storage] | None:
        found = check(given, named)
        if found is not None:
            for storage in found:
                if device_name_of(storage) != device:
                    return None
        return found

    return checked


def _result(computed: ComputedOutput, outputs: Sequence[Storage], device: str) -> Tensor:
    """Return the tensor of an output."""
    dtype, dims, output = computed
    value = _new(Tensor)
    value._leaf = None
    value._node = new_buffer(dtype, dims, device, outputs[output])
    return value


def fast_path_of(
    replay: Replay, signature: Signature, args: tuple[Any, ...], kwargs: Mapping[str, Any]
) -> FastPath | None:
    """Return the fast path for calls like this one, if there is one."""
    arguments = (*args, *kwargs.values())
    if len(arguments) > MOST_ARGUMENTS or signature.variables or not replay.is_stateless():
        return None
    if replay.constants.device is None:
        return None
    others = [value for value in arguments if not tensor_parts(value)]
    tensors = [tensor for value in arguments for tensor in tensor_parts(value)]
    if len(set(map(id, tensors))) < len(signature.tensors):
        return None  # some are inside of containers, or one is passed twice
    return FastPath(replay, args, kwargs) if all(map(is_compared_by_identity, others)) else None


# -- checking the arguments ------------------------------------------------------------------------


def argument_check(given: Sequence[Any], named: Sequence[Any] = ()) -> Check:
    """Return the check whether arguments fit those given, positional and keyword ones."""
    expected: list[Any] = []
    arguments = [(value, tensor_parts(value)) for value in (*given, *named)]
    for value, tensors in arguments:
        for tensor in tensors:
            expected += (tensor._node.dtype, unbound_shape(tensor._node, {}))
        if not tensors:
            expected.append(value)
    return _compiled_check(tuple(len(tensors) for _, tensors in arguments), len(given))(*expected)


@functools.lru_cache(256)
def _compiled_check(parts: tuple[int, ...], given: int) -> Callable[..., Check]:
    """Return the compiled factory of checks; `parts` are the numbers of tensors of arguments."""
    names: dict[str, Any] = {"Tensor": Tensor, "BUFFER": ops.BUFFER}
    if 2 in parts:
        names["Complex"] = import_module("porism.tensor.complex.complex_tensor").ComplexTensor
    exec(check_source(parts, given), names)
    factory: Callable[..., Check] = names["argument_check"]
    return factory


CLASSES: Final = ("", "Tensor", "Complex")
"""The class of an argument, by how many tensors it is; another value has none."""


def check_source(parts: Sequence[int], given: int) -> str:
    """Return the Python source of that factory; the first `given` arguments are positional.

    >>> print(check_source([1, 0], given=1))
    def argument_check(dtype0, dims0, other1):
        def check(given, named):
            x0, = given
            x1, = named
            if type(x0) is Tensor and x1 is other1:
                n0 = x0._node
                if n0.op is BUFFER and n0.dtype is dtype0 and n0.src == dims0:
                    held0 = n0.held
                    if held0 is not None:
                        return [held0]
            return None
        return check
    """
    names = [_part_names(k, count) for k, count in enumerate(parts)]
    tensors = [name for argument in names for name in argument]
    plain = [name for argument in names for name in argument if len(argument) == 1]
    expected = [
        ", ".join(f"dtype{name}, dims{name}" for name in argument) or f"other{k}"
        for k, argument in enumerate(names)
    ]
    first = [
        f"type(x{k}) is {CLASSES[n]}" if n else f"x{k} is other{k}" for k, n in enumerate(parts)
    ]
    pairs = list(itertools.combinations(tensors, 2))
    both_plain = [pair for pair in pairs if {*pair} <= {*plain}]
    first += [f"x{a} is not x{b}" for a, b in both_plain]
    second = [
        f"n{n}.op is BUFFER and n{n}.dtype is dtype{n} and n{n}.src == dims{n}" for n in tensors
    ]
    second += [f"x{a} is not x{b}" for a, b in pairs if (a, b) not in both_plain]
    lines = [
        f"def argument_check({', '.join(expected)}):",
        "    def check(given, named):",
        *(f"        {names}= {source}" for names, source in _unpacking(len(parts), given)),
        f"        if {' and '.join(first) or 'True'}:",
        *(
            f"            x{k}r, x{k}i = x{k}.real_part, x{k}.imag_part"
            for k, count in enumerate(parts)
            if count == 2
        ),
        *(f"            n{name} = x{name}._node" for name in tensors),
        f"            if {' and '.join(second) or 'True'}:",
        *(f"                held{name} = n{name}.held" for name in tensors),
        f"                if {' and '.join(f'held{n} is not None' for n in tensors) or 'True'}:",
        f"                    return [{', '.join(f'held{name}' for name in tensors)}]",
        "        return None",
        "    return check",
    ]
    return "\n".join(lines)


def _part_names(number: int, count: int) -> tuple[str, ...]:
    """Return the names of the tensors of an argument in the source."""
    return () if not count else (f"{number}",) if count == 1 else (f"{number}r", f"{number}i")


def _unpacking(count: int, given: int) -> Iterator[tuple[str, str]]:
    """Yield the names of positional and of keyword arguments, and what they are unpacked from."""
    names = [f"x{k}, " for k in range(count)]
    if given:
        yield "".join(names[:given]), "given"
    if given < count:
        yield "".join(names[given:]), "named"
