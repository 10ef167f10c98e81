"""Control flow: If, Loop and Scan, unrolled with what is known; sequences and optional values."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from porism.frontends.onnx.imported_graph import Graph
from porism.frontends.onnx.operator_call import Call, Value, dtype_of, held, shape_of
from porism.frontends.onnx.operators.data_movement import split_sizes
from porism.frontends.onnx.operators.operator_table import Operator
from porism.frontends.tensor_functions import xp
from porism.tensor.jit.tracing import current
from porism.tensor.tensor import Tensor

MOST_SELECTED_NODES: Final = 50
"""Branches of more nodes than this are not both computed; chosen by hand."""

MOST_ITERATIONS: Final = 100_000
"""The most iterations of one loop."""


def _body(call: Call, name: str) -> Graph:
    graph = call.attribute(name)
    if not isinstance(graph, Graph):
        raise call.error(f"{call.node.op} without its graph {name}", "the attribute is required")
    return graph


def _if(call: Call) -> Value:
    condition = call.value(0)
    branches = _body(call, "then_branch"), _body(call, "else_branch")
    if not isinstance(condition, np.ndarray) and current.get() is not None:
        selected = _select(call, condition, branches)
        if selected is not None:
            return selected
    branch = branches[0 if bool(call.scalar(0)) else 1]
    return tuple(call.builder.run(branch, [], call.scope))


def _select(call: Call, condition: Value, branches: tuple[Graph, Graph]) -> Value:
    """Return both branches selected by a traced condition; None if they are long or differ."""
    if sum(len(branch.nodes) for branch in branches) > MOST_SELECTED_NODES:
        return None
    results = [call.builder.run(branch, [], call.scope) for branch in branches]
    pairs = []
    for yes, no in zip(*results, strict=True):
        if not all(isinstance(v, (Tensor, np.ndarray)) and held(dtype_of(v)) for v in (yes, no)):
            return None
        if shape_of(yes) != shape_of(no) or dtype_of(yes) != dtype_of(no):
            return None
        pairs.append([call.builder.as_tensor(v, call.node) for v in (yes, no)])
    chosen = condition.reshape(())
    return tuple(xp.where(chosen, yes, no) for yes, no in pairs)


def _loop(call: Call) -> Value:
    body = _body(call, "body")
    count = int(call.scalar(0)) if call.has(0) else None
    going = bool(call.scalar(1)) if call.has(1) else True
    carried = list(call.inputs[2:])
    states = len(body.inputs) - 2
    collected: list[list[Value]] = [[] for _ in body.outputs[1 + states :]]
    iteration = 0
    while going and (count is None or iteration < count):
        if iteration >= MOST_ITERATIONS:
            raise call.error(f"Loop of more than {MOST_ITERATIONS} iterations", "it may not end")
        inputs = [np.array(iteration, np.int64), np.array(True), *carried]
        condition, *results = call.builder.run(body, inputs, call.scope)
        carried = results[:states]
        for items, value in zip(collected, results[states:], strict=True):
            items.append(value)
        iteration += 1
        if condition is not None and not _is_true(call, body, condition):
            going = False
    scans = []
    for items, name in zip(collected, body.outputs[1 + states :], strict=True):
        scans.append(_stacked(call, items, 0) if items else _empty(call, body, name))
    return (*carried, *scans)


def _is_true(call: Call, body: Graph, condition: Value) -> bool:
    return bool(call.builder.as_array(condition, call.node).reshape(()))


def _empty(call: Call, body: Graph, name: str) -> Value:
    """Return what a loop without iterations has collected."""
    info = body.output_info[name]
    sizes = [size if isinstance(size, int) else 0 for size in info.shape or ()]
    return np.zeros((0, *sizes), np.dtype(info.dtype))


def _stacked(call: Call, items: list[Value], axis: int) -> Value:
    if all(isinstance(item, np.ndarray) for item in items):
        return np.stack(items, axis)
    return xp.stack([call.builder.as_tensor(item, call.node) for item in items], axis=axis)


def _scan(call: Call) -> Value:
    body = _body(call, "body")
    scanned = call.integer("num_scan_inputs")
    if call.version < 9:
        return _batched_scan(call, body, scanned)
    states = len(call.inputs) - scanned
    return _scan_values(call, body, list(call.inputs[:states]), list(call.inputs[states:]))


def _batched_scan(call: Call, body: Graph, scanned: int) -> Value:
    """Build the Scan of version 8, which has a batch axis before the axis that is scanned."""
    states = len(call.inputs) - 1 - scanned
    if call.has(0):
        raise call.error("Scan with sequence lengths", "only whole sequences are scanned")
    values = [call.builder.as_tensor(v, call.node) for v in call.inputs[1:]]
    results = []
    for k in range(int(values[0].shape[0])):
        one = [v[k] for v in values]
        results.append(_scan_values(call, body, one[:states], one[states:]))
    return tuple(_stacked(call, list(same), 0) for same in zip(*results, strict=True))


def _scan_values(call: Call, body: Graph, carried: list[Value], values: list[Value]) -> Value:
    states = len(carried)
    axes = call.attribute("scan_input_axes") or [0] * len(values)
    backwards = call.attribute("scan_input_directions") or [0] * len(values)
    tensors = [call.builder.as_tensor(v, call.node) for v in values]
    axes = [call.axis(a, t.ndim) for a, t in zip(axes, tensors, strict=True)]
    count = int(tensors[0].shape[axes[0]])
    if count > MOST_ITERATIONS:
        raise call.error(f"Scan of {count} iterations", f"at most {MOST_ITERATIONS} are unrolled")
    outputs = len(body.outputs) - states
    collected: list[list[Value]] = [[] for _ in range(outputs)]
    for step in range(count):
        slices = []
        for tensor, axis, back in zip(tensors, axes, backwards, strict=True):
            at = count - 1 - step if back else step
            slices.append(tensor[(*[slice(None)] * axis, at)])
        results = call.builder.run(body, [*carried, *slices], call.scope)
        carried = results[:states]
        for items, value in zip(collected, results[states:], strict=True):
            items.append(value)
    out_axes = call.attribute("scan_output_axes") or [0] * outputs
    out_back = call.attribute("scan_output_directions") or [0] * outputs
    scans = [
        _stacked(call, items[::-1] if back else items, _output_axis(call, axis, items))
        for items, axis, back in zip(collected, out_axes, out_back, strict=True)
    ]
    return (*carried, *scans)


def _output_axis(call: Call, axis: int, items: list[Value]) -> int:
    return call.axis(axis, len(items[0].shape) + 1) if items else 0


# -- sequences -------------------------------------------------------------------------------------


def _sequence(call: Call, number: int = 0) -> list[Value]:
    value = call.value(number)
    if not isinstance(value, list):
        raise call.error(f"{call.node.op} of a tensor", "it wants a sequence")
    return value


def _position(call: Call, number: int, size: int, default: int) -> int:
    at = int(call.scalar(number, default))
    if not -size <= at <= size:
        raise call.error(f"{call.node.op} at {at} of {size} elements", "there is none")
    return at + size if at < 0 else at


def _sequence_at(call: Call) -> Value:
    items = _sequence(call)
    return items[_position(call, 1, len(items), 0)]


def _sequence_insert(call: Call) -> Value:
    items = list(_sequence(call))
    items.insert(_position(call, 2, len(items), len(items)), call.value(1))
    return (items,)


def _sequence_erase(call: Call) -> Value:
    items = list(_sequence(call))
    del items[_position(call, 1, len(items), len(items) - 1)]
    return (items,)


def _concat_from_sequence(call: Call) -> Value:
    items = [call.builder.as_tensor(item, call.node) for item in _sequence(call)]
    axis = call.integer("axis")
    return xp.stack(items, axis=axis) if call.integer("new_axis") else xp.concat(items, axis=axis)


def _split_to_sequence(call: Call) -> Value:
    x = call.tensor(0)
    axis = call.axis(call.integer("axis"), x.ndim)
    size = x.shape[axis]
    single = not call.has(1)
    if single:
        sizes = [1] * size
    elif call.host(1).ndim == 0:
        part = int(call.scalar(1))
        sizes = [min(part, size - k) for k in range(0, size, part)]
    else:
        sizes = split_sizes(call, size)
    parts: list[Value] = []
    begin = 0
    for n in sizes:
        part_value = x[(*[slice(None)] * axis, slice(begin, begin + n))]
        if single and not call.integer("keepdims", 1):
            part_value = xp.squeeze(part_value, axis)
        parts.append(part_value)
        begin += n
    return (parts,)


def _sequence_map(call: Call) -> Value:
    body = _body(call, "body")
    items = _sequence(call)
    columns: list[list[Value]] = [[] for _ in body.outputs]
    for k in range(len(items)):
        inputs = [v[k] if isinstance(v, list) else v for v in call.inputs]
        for column, value in zip(columns, call.builder.run(body, inputs, call.scope), strict=True):
            column.append(value)
    return tuple(columns)


def _optional(call: Call) -> Value:
    return (call.inputs[0] if call.inputs else None,)


def _optional_has_element(call: Call) -> Value:
    return np.array(call.has(0))


OPERATORS: Final[tuple[Any, ...]] = (
    Operator("If", _if),
    Operator("Loop", _loop),
    Operator("Scan", _scan),
    Operator("SequenceConstruct", lambda call: (list(call.inputs),)),
    Operator("SequenceEmpty", lambda call: ([],)),
    Operator("SequenceAt", _sequence_at),
    Operator("SequenceInsert", _sequence_insert),
    Operator("SequenceErase", _sequence_erase),
    Operator("SequenceLength", lambda call: np.array(len(_sequence(call)), np.int64)),
    Operator("ConcatFromSequence", _concat_from_sequence),
    Operator("SplitToSequence", _split_to_sequence),
    Operator("SequenceMap", _sequence_map),
    Operator("Optional", _optional),
    Operator("OptionalHasElement", _optional_has_element),
    Operator("OptionalGetElement", lambda call: (call.value(0),)),
)
"""The rows of this module."""
