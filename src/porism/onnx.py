"""ONNX models: `porism.onnx.load(path)` returns a model that is called with named inputs."""

from __future__ import annotations

from porism.frontends.onnx import Model, ModelError, load

__all__ = ["Model", "ModelError", "load"]
