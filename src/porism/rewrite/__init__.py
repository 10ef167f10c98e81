"""Rewriting: rules as data, compiled to functions, applied at construction or by passes."""
