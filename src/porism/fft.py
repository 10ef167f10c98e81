"""Fourier transforms, the extension `fft` of the Array API: `porism.fft.fft(x)`.

Transforms are compiled kernels on the parts of complex tensors, lazy and jitted as all functions on
tensors, for every length.

>>> import porism
>>> porism.fft.ifft(porism.fft.fft([1.0, 2.0, 3.0, 4.0])).real.tolist()
[1.0, 2.0, 3.0, 4.0]
"""

from __future__ import annotations

from typing import Any

from porism.tensor import namespace
from porism.tensor.fourier import frequencies, transforms
from porism.tensor.habits.keywords import public
from porism.tensor.habits.unknown_names import UnknownName

namespace.find("matmul")  # tensors have their operators

fft = public(transforms.fft)
fft2 = public(transforms.fft2)
fftn = public(transforms.fftn)
hfft = public(transforms.hfft)
ifft = public(transforms.ifft)
ifft2 = public(transforms.ifft2)
ifftn = public(transforms.ifftn)
ihfft = public(transforms.ihfft)
irfft = public(transforms.irfft)
irfft2 = public(transforms.irfft2)
irfftn = public(transforms.irfftn)
rfft = public(transforms.rfft)
rfft2 = public(transforms.rfft2)
rfftn = public(transforms.rfftn)
fftfreq = public(frequencies.fftfreq)
fftshift = public(frequencies.fftshift)
ifftshift = public(frequencies.ifftshift)
rfftfreq = public(frequencies.rfftfreq)

__all__ = [
    "fft",
    "fft2",
    "fftfreq",
    "fftn",
    "fftshift",
    "hfft",
    "ifft",
    "ifft2",
    "ifftn",
    "ifftshift",
    "ihfft",
    "irfft",
    "irfft2",
    "irfftn",
    "rfft",
    "rfft2",
    "rfftfreq",
    "rfftn",
]


def __getattr__(name: str) -> Any:
    if name.startswith("__"):
        raise AttributeError(f"module 'porism.fft' has no attribute {name!r}")
    raise UnknownName("porism.fft", name, __all__)


def __dir__() -> list[str]:
    return __all__
