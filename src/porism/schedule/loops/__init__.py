"""Loops: stages on the ranges of one kernel, whatever the target is."""
