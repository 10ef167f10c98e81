"""Buffers: rules about values that are materialized for some ranges, and dead loops."""
