"""Optimization of a kernel: which loops are vectorized, unrolled or parallel, in which order."""
