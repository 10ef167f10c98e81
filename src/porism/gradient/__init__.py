"""Gradients: reverse-mode differentiation as a rewrite of the tensor graph."""
