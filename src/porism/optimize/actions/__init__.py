"""Actions: transformations of a kernel's loops, one class each, listed in one registry."""
