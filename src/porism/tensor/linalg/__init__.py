"""Linear algebra of matrices: the functions of `porism.linalg`."""
