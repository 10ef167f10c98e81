"""LLVM: kernels as LLVM IR, compiled in this process by llvmlite."""
