"""Small ONNX models for tests, written in the text format of the package onnx."""

from __future__ import annotations

from typing import Any

import onnx
import onnx.parser

import porism


def proto(text: str, opset: int = 21, **domains: int) -> Any:
    """Return the message of a model of one graph, as `g (float[N] x) => (float[N] y) {…}`."""
    sets = [f'"": {opset}', *(f'"{name.replace("_", ".")}": {n}' for name, n in domains.items())]
    return onnx.parser.parse_model(f"<ir_version: 10, opset_import: [{', '.join(sets)}]>\n{text}")


def model(text: str, opset: int = 21, **domains: int) -> porism.onnx.Model:
    """Return a loaded model of one graph."""
    return porism.onnx.load(proto(text, opset, **domains).SerializeToString())
