"""Fourier transforms, the extension `fft` of the Array API: `porism.fft.fft(x)`.

Transforms are compiled kernels on the parts of complex tensors, lazy and jitted as all functions on
tensors, for every length.

>>> import porism
>>> porism.fft.ifft(porism.fft.fft([1.0, 2.0, 3.0, 4.0])).real.tolist()
[1.0, 2.0, 3.0, 4.0]
"""

from __future__ import annotations

from porism.tensor import namespace
from porism.tensor.fourier.frequencies import fftfreq, fftshift, ifftshift, rfftfreq
from porism.tensor.fourier.transforms import (
    fft,
    fftn,
    hfft,
    ifft,
    ifftn,
    ihfft,
    irfft,
    irfftn,
    rfft,
    rfftn,
)

namespace.find("matmul")  # tensors have their operators

__all__ = [
    "fft",
    "fftfreq",
    "fftn",
    "fftshift",
    "hfft",
    "ifft",
    "ifftn",
    "ifftshift",
    "ihfft",
    "irfft",
    "irfftn",
    "rfft",
    "rfftfreq",
    "rfftn",
]


def __dir__() -> list[str]:
    return __all__
