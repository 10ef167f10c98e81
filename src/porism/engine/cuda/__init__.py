"""NVIDIA GPUs, by the driver alone."""
