"""Arithmetics: what ops mean to the solver and on arrays, one type theory a module."""
