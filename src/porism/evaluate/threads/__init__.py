"""Kernels as threads run them: one step after the other, block by block."""
