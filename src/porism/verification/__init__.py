"""Verify mode: each compile checked, by proof where there is one.

Of every kernel, from how it is made to how it is lowered:

- each index and mask stands for the same elements after a stage as before it;
- each access is inside of its buffer, wherever its mask lets it happen;
- no two parallel iterations write one element.

A question is decided by sums (`sums`), by the solver (`porism.prove.arithmetic.kernel_formulas`,
where z3 is installed), or by trying all values or many of them (`points`). The report says which.
"""
