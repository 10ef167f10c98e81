"""Matrices and sequences: their construction, and products beside `matmul`."""
