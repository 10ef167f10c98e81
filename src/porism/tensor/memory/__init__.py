"""Memory that tensors and arrays of other libraries share."""
