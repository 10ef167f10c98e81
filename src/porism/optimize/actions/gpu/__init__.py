"""GPU actions: threads of a block and tensor cores."""
