"""Benchmarks: `./dev bench NAME` runs one; it prints a table and can write it as JSON."""
