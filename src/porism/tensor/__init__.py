"""Tensors: the lazy front end. Operations build a graph; asking for the values computes it."""
