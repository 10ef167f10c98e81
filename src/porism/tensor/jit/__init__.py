"""Jit: functions on tensors, traced once and replayed."""
