"""ATen: each operator of torch's library of tensors as a function on tensors, in one table."""
