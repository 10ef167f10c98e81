"""ONNX models: `porism.onnx.load(path)` gives a function with named inputs and outputs.

A model is read into light records (`model_file`, `imported_graph`), each of its nodes is built from
functions on tensors (`graph_builder`, the table in `operators`), and the whole graph is one jitted
function for each shape of the inputs (`onnx_model`). Needs the extra `porism[onnx]`.
"""

from __future__ import annotations

from porism.frontends.onnx.model_errors import ModelError
from porism.frontends.onnx.onnx_model import Model, load

__all__ = ["Model", "ModelError", "load"]
