"""Addresses: rules about the indices of accesses, their widths, masks and strides."""
