"""Complex tensors: pairs of float tensors, and what each function does with them."""
