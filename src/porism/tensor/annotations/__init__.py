"""Annotations: the types of arguments of public functions, and of methods of tensors."""
