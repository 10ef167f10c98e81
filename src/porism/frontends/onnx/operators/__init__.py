"""Operators: the table of ONNX operators, each built from functions on tensors."""
