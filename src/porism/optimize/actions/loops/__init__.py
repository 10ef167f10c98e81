"""Loop actions: vectorize, unroll, tile, reorder, merge, pad and parallelize loops."""
