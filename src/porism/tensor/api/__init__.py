"""Array functions: creation, arithmetic, comparison, reductions, linear algebra, random numbers."""
