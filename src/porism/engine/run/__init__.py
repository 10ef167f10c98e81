"""Running: from a graph to a compiled program, its memory, and its results."""
