"""Lowering: from a kernel with scheduled loops to a list of instructions for a target."""
