"""Optimisation of a kernel: which loops run side by side, in parallel, and in which order."""
