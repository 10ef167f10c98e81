"""Analysis: how the loops of a kernel access memory."""
