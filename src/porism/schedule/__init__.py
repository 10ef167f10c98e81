"""The schedule: from tensors with axes to an ordered list of kernels with loops."""
