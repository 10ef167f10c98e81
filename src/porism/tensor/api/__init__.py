"""Array functions: creation, elementwise functions, reductions, linear algebra."""
