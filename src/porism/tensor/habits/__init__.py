"""Habits: names, keywords and methods of NumPy, PyTorch and JAX on tensors.

What means the same there and here works. What differs raises an error that says what to write.
"""
