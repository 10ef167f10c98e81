"""Random differentiable programs: the calls they are made of, and how they are compared."""
