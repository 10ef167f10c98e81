"""Differentiation of functions on tensors: `grad` and its relatives, and `backward`."""
