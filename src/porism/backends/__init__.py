"""Backends: from a linear kernel to code that runs."""
