"""Machines: what processors do in a cycle, as data."""
