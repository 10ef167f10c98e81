"""Profiling: observers of running kernels, counts of their work, progress bars."""
