"""Rangeify: from tensors with axes to values at the iterations of ranges."""
