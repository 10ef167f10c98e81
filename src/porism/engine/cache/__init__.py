"""Caches on disk: compiled kernels and schedules."""
