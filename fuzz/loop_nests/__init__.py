"""Loop nests: random kernels with random actions, and what runs and compares them."""
