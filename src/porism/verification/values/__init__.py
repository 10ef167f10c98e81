"""Values: kernels run on sampled data and compared with their reference."""
