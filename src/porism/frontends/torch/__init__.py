"""PyTorch: a backend of `torch.compile`, which compiles graphs of ATen operators with Porism.

Nothing here imports torch before torch asks for the backend.
"""
