"""Simplifier: simplify index expressions that are given as text, and check typed conjectures."""
