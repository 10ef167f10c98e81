"""Benchmarks: `./dev bench NAME` runs one; each prints a table and can write its figures as JSON."""
