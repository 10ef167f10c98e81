"""GPU lowering: blocks, threads, shared memory and tensor cores."""
