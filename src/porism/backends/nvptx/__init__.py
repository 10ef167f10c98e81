"""NVPTX: kernels for NVIDIA's GPUs as PTX, by LLVM's NVPTX target."""
