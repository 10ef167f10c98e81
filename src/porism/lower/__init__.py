"""Lowering: from a kernel with loops to what a machine has."""
