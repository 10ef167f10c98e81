"""Reductions: rules that remove, shorten or split the loops of reductions."""
