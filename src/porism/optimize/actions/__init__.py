"""Actions: transformations of the loops of a kernel, and their registry."""
