"""Tests of memory that tensors and arrays of other libraries share."""
