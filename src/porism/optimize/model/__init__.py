"""Machine model: estimated cycles and memory traffic of a kernel."""
