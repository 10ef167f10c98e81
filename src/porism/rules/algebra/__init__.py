"""Algebra: rewrite rules about arithmetic, comparisons, conversions and conditionals."""
