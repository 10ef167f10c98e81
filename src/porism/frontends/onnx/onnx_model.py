"""ONNX model: a function with named inputs and outputs, compiled once for each shape of the inputs.

The graph is traced and compiled as a whole, with the weights as constants. Where the shape of a
value depends on data there are two ways left: a few integers among the inputs decide it, and the
graph is compiled for their values; or nodes are computed one after the other, and values that
decide shapes are read in between.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

import numpy as np

from porism.frontends.onnx import model_file, onnx_types
from porism.frontends.onnx.graph_builder import Constants, GraphBuilder, Scope
from porism.frontends.onnx.imported_graph import ValueInfo
from porism.frontends.onnx.model_errors import ModelError, NeedsHost
from porism.frontends.onnx.onnx_types import is_held
from porism.frontends.onnx.operator_call import Value, dtype_of
from porism.frontends.onnx.piecewise import PiecewiseProgram, traced_outputs
from porism.frontends.onnx.stored_programs import call_traced, content_of, filled, outlined
from porism.frontends.tensor_functions import xp
from porism.tensor.jit.jit import Jitted
from porism.tensor.tensor import Tensor

MOST_DECIDING_ELEMENTS: Final = 16
"""Integer inputs of at most so many elements may decide shapes and branches by their values."""

MOST_PROGRAMS: Final = 64
"""How many programs a model keeps, one for each shape of its inputs; the oldest are dropped."""

Program = Callable[[Sequence[Value]], list[Value]]
"""Takes the values of all inputs in order, and returns those of all outputs."""


def load(source: Any) -> Model:
    """Return a model from the path of an .onnx file, or from the bytes of one.

    The file may come from anyone: nothing in it is executed, sizes are checked before memory is
    allocated, and external data are read from the folder of the model alone.
    """
    return Model(model_file.read(source))


class RepeatedCall:
    """A call of a model; one with arrays of the same shapes and types skips all checks."""

    __slots__ = ("kinds", "names", "program")

    def __init__(self, values: Mapping[str, Value], program: Program) -> None:
        self.names = tuple(values)
        self.kinds = [
            (getattr(v, "shape", None), getattr(v, "dtype", None)) for v in values.values()
        ]
        self.program = program

    def values(self, given: Mapping[str, Any]) -> list[Value] | None:
        """Return the inputs in order; None if they are not arrays like those of the last call."""
        values = []
        for name, (shape, dtype) in zip(self.names, self.kinds, strict=True):
            value = given.get(name)
            if type(value) is not np.ndarray or value.dtype != dtype or value.shape != shape:
                return None
            values.append(value)
        return values


class Model:
    """A loaded model; called with its inputs by name, it returns its outputs by name."""

    def __init__(self, file: model_file.ModelFile) -> None:
        graph = file.graph
        self.file = file
        self.name = file.name
        self._names = [name for name in graph.inputs if name not in graph.constants]
        self._optional = [name for name in graph.inputs if name in graph.constants]
        self.inputs: dict[str, ValueInfo] = {n: graph.input_info[n] for n in self._names}
        """The shape and type of each input; initializers may be given as well."""
        self.outputs: dict[str, ValueInfo] = {n: graph.output_info[n] for n in graph.outputs}
        """The shape and type of each output."""
        self._constants = Constants()
        self._programs: dict[tuple[Any, ...], Program] = {}
        self._repeated: RepeatedCall | None = None
        """The last call, if one like it needs no checks."""
        self._deciding: frozenset[str] = frozenset()
        """Inputs whose values decide shapes or branches."""

    def __repr__(self) -> str:
        return f"<model {self.name}: {', '.join(self.inputs)} -> {', '.join(self.outputs)}>"

    def __call__(
        self, inputs: Mapping[str, Any] | None = None, /, **named: Any
    ) -> dict[str, Value]:
        """Return the outputs by name, for arrays or tensors by name."""
        given = {**inputs, **named} if inputs and named else inputs or named
        repeated = self._repeated
        if repeated is not None and len(given) == len(repeated.names):
            again = repeated.values(given)
            if again is not None:
                return dict(zip(self.outputs, repeated.program(again), strict=True))
        values = self._checked(given)
        key = self._key(values)
        program = self._programs.get(key)
        given_values = [*values.values()]
        if program is None:
            program = self._compile(values)
            while len(self._programs) >= MOST_PROGRAMS:
                del self._programs[next(iter(self._programs))]
            key = self._key(values)
            self._programs[key] = program
        self._repeated = None if self._deciding else RepeatedCall(values, program)
        return dict(zip(self.outputs, program(given_values), strict=True))

    @property
    def programs(self) -> int:
        """How many shapes of the inputs the model is compiled for."""
        return len(self._programs)

    # -- inputs ------------------------------------------------------------------------------------

    def _checked(self, given: Mapping[str, Any]) -> dict[str, Value]:
        """Return the inputs in the model's order as tensors or arrays of the declared types."""
        for name in given:
            if name not in self.inputs and name not in self._optional:
                raise ModelError(
                    f"the model has no input {name!r}",
                    where=self.name,
                    why="its inputs are " + ", ".join(self.inputs),
                    fix="pass values for these names",
                )
        missing = [name for name in self._names if name not in given]
        if missing:
            raise ModelError(
                f"the input {missing[0]!r} is missing",
                where=self.name,
                why="its inputs are " + ", ".join(self.inputs),
                fix="pass an array for each of them",
            )
        infos = self.file.graph.input_info
        names = [*self._names, *(name for name in self._optional if name in given)]
        return {name: self._checked_input(name, given[name], infos[name]) for name in names}

    def _checked_input(self, name: str, value: Any, info: ValueInfo) -> Value:
        if info.dtype in ("sequence", "optional", "map", "sparse_tensor", "unknown"):
            return _nested_value(value)
        if not isinstance(value, (Tensor, np.ndarray)):
            value = self._converted(name, value, info)
        elif isinstance(value, np.ndarray) and not value.dtype.isnative:
            value = value.astype(value.dtype.newbyteorder("="))
        found = _type_name(value)
        if found != info.dtype:
            raise ModelError(
                f"the input {name!r} is of {found}",
                where=self.name,
                why=f"the model declares {info.dtype}",
                fix=f"convert it, with .astype({info.dtype!r})",
            )
        shape = tuple(value.shape)
        wanted = info.shape
        if wanted is not None and (
            len(shape) != len(wanted)
            or any(isinstance(w, int) and w != s for s, w in zip(shape, wanted, strict=True))
        ):
            raise ModelError(
                f"the input {name!r} has the shape {shape}",
                where=self.name,
                why=f"the model declares {_shape_text(wanted)}",
                fix="pass an array of that shape",
            )
        return value

    def _converted(self, name: str, value: Any, info: ValueInfo) -> Value:
        """Return numbers, lists or other arrays as an array of the declared type."""
        try:
            array = np.asarray(value)
            wanted = object if info.dtype == "string" else np.dtype(info.dtype)
            return array if hasattr(value, "dtype") else array.astype(wanted)
        except (TypeError, ValueError) as error:
            raise ModelError(
                f"the input {name!r} is a {type(value).__name__}",
                where=self.name,
                why=f"it is no array: {error}",
                fix="pass an array or a tensor",
            ) from None

    def _key(self, values: Mapping[str, Value]) -> tuple[Any, ...]:
        """Return what a program is compiled for: shapes and types, and values that decide."""
        key: list[Any] = []
        for name, value in values.items():
            if isinstance(value, list) or value is None:
                key.append((name, "nested"))
            elif name in self._deciding:
                array = np.asarray(value)
                key.append((name, array.shape, array.tobytes()))
            else:
                key.append((name, value.shape, value.dtype))
        return tuple(key)

    # -- programs ----------------------------------------------------------------------------------

    def _compile(self, values: Mapping[str, Value]) -> Program:
        """Return a program for inputs of these shapes."""
        if not all(_is_traceable(value) for value in values.values()):
            return self._interpreted([*values])
        while True:
            try:
                return self._jitted(values)
            except NeedsHost as need:
                deciding = need.inputs - self._deciding
                if not deciding or not all(_may_decide(values[name]) for name in deciding):
                    self._deciding = frozenset()
                    return self._interpreted([*values])
                self._deciding |= deciding

    def _jitted(self, values: Mapping[str, Value]) -> Program:
        """Return the whole graph as a jitted function; NeedsHost if shapes depend on data."""
        known = {n: np.array(v) for n, v in values.items() if n in self._deciding}
        traced = [name for name in values if name not in known]
        layout: list[Value] = []

        def function(*tensors: Tensor) -> tuple[Tensor, ...]:
            builder = GraphBuilder(self.file, self._constants)
            given = {**known, **dict(zip(traced, tensors, strict=True))}
            scope = Scope(self.file.graph)
            scope.names.update(given)
            results = traced_outputs(builder, scope, traced, tensors)
            found: list[Tensor] = []
            layout[:] = [outlined(value, found) for value in results]
            return tuple(found)

        content = content_of(self.file, self.file.graph, known, traced, layout)
        jitted = Jitted(function, 1, content=content)
        positions = [position for position, name in enumerate(values) if name not in known]
        tensors = [_as_tensor(values[name]) for name in traced]
        first = [tuple(call_traced(jitted, content, self.file.graph, tensors))]

        shared: dict[int, tuple[Value, Tensor]] = {}

        def argument(position: int, value: Value) -> Tensor:
            """Return an input as a tensor; that of the last call if it is the same array."""
            last = shared.get(position)
            if last is not None and last[0] is value:
                return last[1]
            tensor = _as_tensor(value)
            if tensor is not value and _is_shareable(value):
                shared[position] = value, tensor
            return tensor

        def program(given: Sequence[Value]) -> list[Value]:
            if first:  # the call that has compiled it
                results = iter(first.pop())
            else:
                results = iter(jitted(*[argument(k, given[k]) for k in positions]))
            return [_outer_value(filled(value, results)) for value in layout]

        return program

    def _interpreted(self, names: Sequence[str]) -> Program:
        """Return the graph as pieces, with values that decide shapes read in between."""
        graph = self.file.graph
        constants = {n: v for n, v in graph.constants.items() if n not in names}
        pieces = PiecewiseProgram(
            self.file, self._constants, replace(graph, constants=constants), {}
        )

        def program(given: Sequence[Value]) -> list[Value]:
            inputs = {n: _inner_value(value) for n, value in zip(names, given, strict=True)}
            results = pieces.run(inputs)
            live = [value for value in results if isinstance(value, Tensor)]
            if live:
                xp.realize(*live)
            return [_outer_value(value) for value in results]

        return program


def _may_decide(value: Value) -> bool:
    """Whether a program may be compiled for the value of an input: it is a few integers."""
    few = math.prod(value.shape) <= MOST_DECIDING_ELEMENTS
    return few and dtype_of(value).kind in "iub"


def _is_traceable(value: Value) -> bool:
    """Whether a value can be an argument of a traced function."""
    return isinstance(value, Tensor) or (isinstance(value, np.ndarray) and is_held(value.dtype))


def _as_tensor(value: Value) -> Tensor:
    """Return a value as a tensor, which may share the memory of an array during a call."""
    if isinstance(value, Tensor):
        return value
    if _is_shareable(value):
        return xp.asarray(value, copy=False)  # type: ignore[no-any-return]
    return xp.asarray(value)  # type: ignore[no-any-return]


def _is_shareable(value: Value) -> bool:
    """Whether a tensor can share the memory of an array."""
    flags = value.flags
    return bool(value.size and flags.c_contiguous and flags.aligned and flags.writeable)


def _inner_value(value: Value) -> Value:
    """Return an input for the interpreter: tensors where there are tensors of the type."""
    if isinstance(value, np.ndarray) and is_held(value.dtype):
        return xp.asarray(value)
    return value


def _outer_value(value: Value) -> Value:
    """Return an output: arrays become tensors, except for types that tensors do not have."""
    if isinstance(value, list):
        return [_outer_value(item) for item in value]
    return _inner_value(value)


def _nested_value(value: Any) -> Value:
    """Return a sequence as a list of arrays and tensors."""
    if isinstance(value, (list, tuple)):
        return [_nested_value(item) for item in value]
    if value is None or isinstance(value, Tensor):
        return value
    return _inner_value(np.asarray(value))


def _type_name(value: Value) -> str:
    """Return the name of a value's type as ONNX has it."""
    dtype = dtype_of(value)
    if dtype.kind in "UOST":
        return "string"
    try:
        return onnx_types.name_of(onnx_types.number_of(dtype))
    except KeyError:
        return str(dtype)


def _shape_text(shape: Sequence[int | str | None]) -> str:
    sizes = ["?" if size is None else str(size) for size in shape]
    return f"({', '.join(sizes)}{',' * (len(sizes) == 1)})"
