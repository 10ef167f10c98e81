"""Verify mode: every compilation is checked, by proof where there is one.

For every kernel, from its split to its lowering:

- each index and mask addresses the same elements after a stage as before it;
- each access is in bounds, wherever its mask lets it execute;
- no two parallel iterations write one element.

A check is decided by linear sums (`linear_constraints`), by the solver
(`porism.prove.arithmetic.kernel_formulas`, where z3 is installed), or by evaluating all points or
many of them (`sample_points`). The report says which.
"""
