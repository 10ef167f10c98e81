"""Fourier transforms: the functions of `porism.fft`."""
