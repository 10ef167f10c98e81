"""Optimization of a kernel: which loops are vectorized, unrolled or parallel, and in which order."""
