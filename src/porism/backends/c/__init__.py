"""C: kernels as readable C99, to be read, exported, or compiled by gcc or clang."""
