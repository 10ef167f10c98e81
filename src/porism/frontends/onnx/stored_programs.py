"""Stored programs: the outputs of a traced graph beside its tensors, and its key on disk.

A jitted graph is found on disk by the digest of the model file, the numbers of its nodes, the
inputs that it is compiled for by value, and the versions of the packages that compute constants.
"""

from __future__ import annotations

import base64
import json
import platform
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import numpy as np

from porism.base.file_store import name_of
from porism.frontends.onnx.imported_graph import Graph
from porism.frontends.onnx.model_errors import NeedsHost
from porism.frontends.onnx.model_file import ModelFile, import_onnx
from porism.frontends.onnx.operator_call import Value, dtype_of
from porism.tensor.jit.jit import Jitted
from porism.tensor.jit.stored_replay import Content, keep_note, load_note
from porism.tensor.tensor import Tensor

MOST_NOTED_BYTES: Final = 1 << 16
"""A program whose outputs that are no tensors take more bytes is not stored."""


class Hole:
    """Stands for a tensor in the outputs of a traced graph."""


def outlined(value: Value, found: list[Tensor]) -> Value:
    """Return an output with holes in place of its tensors, which are added to `found`."""
    if isinstance(value, Tensor):
        found.append(value)
        return Hole
    return [outlined(item, found) for item in value] if isinstance(value, list) else value


def filled(value: Value, results: Iterator[Tensor]) -> Value:
    """Return an output with its holes filled."""
    if value is Hole:
        return next(results)
    return [filled(item, results) for item in value] if isinstance(value, list) else value


# -- on disk ---------------------------------------------------------------------------------------


def content_of(
    file: ModelFile, graph: Graph, known: Mapping[str, Value], traced: Sequence[str],
    layout: list[Value],
) -> Content | None:  # fmt: skip
    """Return the content of a graph or piece, whose outputs are laid out in `layout`.

    `known` are the inputs that it is compiled for by value, `traced` the others. None if the graph
    is not in a file.
    """
    if file.digest is None or graph.number is None:
        return None
    values = [
        [name, value.dtype.str, list(value.shape), value.tobytes().hex()]
        for name, value in known.items()
        if isinstance(value, np.ndarray) and value.dtype.kind in "biuf"
    ]
    if len(values) < len(known):
        return None
    versions = [import_onnx().__version__, np.__version__, platform.python_version()]
    nodes = [node.number for node in graph.nodes]
    ends = [graph.number, nodes, graph.inputs, graph.outputs]
    key = name_of("onnx", file.digest, json.dumps([versions, ends, values, [*traced]]))
    return Content(key, lambda: _noted(layout), lambda note: _restore(layout, note))


def call_traced(
    jitted: Jitted[..., Any], content: Content | None, graph: Graph, tensors: Sequence[Tensor]
) -> Any:
    """Return what a jitted graph returns for tensors; it is compiled if it was not before.

    A NeedsHost is raised at once if an earlier process has found it out by tracing.
    """
    if content is None:
        return jitted(*tensors)
    shapes = [[str(dtype_of(tensor)), [str(size) for size in tensor.shape]] for tensor in tensors]
    key = f"{content.key} {json.dumps(shapes)}"
    note = load_note(key)
    if isinstance(note, list) and len(note) == 2:
        number, inputs = note
        for node in graph.nodes:
            if node.number == number:
                need = NeedsHost(node, None)
                need.inputs = frozenset(inputs)
                raise need
    try:
        return jitted(*tensors)
    except NeedsHost as need:
        keep_note(key, [need.number, sorted(need.inputs)])
        raise


def _noted(layout: Sequence[Value]) -> Any:
    """Return the outputs of a traced graph as JSON; None if they cannot be written."""
    try:
        note = [_written(value) for value in layout]
    except TypeError:
        return None
    return note if len(json.dumps(note)) <= MOST_NOTED_BYTES else None


def _restore(layout: list[Value], note: Any) -> None:
    layout[:] = [_read(value) for value in note]


def _written(value: Value) -> Any:
    if value is Hole:
        return "tensor"
    if value is None:
        return None
    if isinstance(value, list):
        return [_written(item) for item in value]
    if not isinstance(value, np.ndarray) or value.dtype.kind not in "biuf":
        raise TypeError("only arrays of numbers are written")
    data = base64.b64encode(value.tobytes()).decode()
    return {"dtype": value.dtype.str, "shape": list(value.shape), "data": data}


def _read(value: Any) -> Value:
    if value == "tensor":
        return Hole
    if isinstance(value, dict):
        data = base64.b64decode(value["data"])
        return np.frombuffer(data, np.dtype(value["dtype"])).reshape(value["shape"]).copy()
    return [_read(item) for item in value] if isinstance(value, list) else value
