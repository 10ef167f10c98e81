"""Weights in files: safetensors, NumPy's archives, and checkpoints of PyTorch."""
