"""Signals: Fourier transforms as matrix products, windows, and mel filters."""

from __future__ import annotations

import math
from typing import Any, Final

import numpy as np

from porism.frontends.onnx import onnx_types
from porism.frontends.onnx.operator_call import Call, Value
from porism.frontends.onnx.operators.data_movement import check_shape
from porism.frontends.onnx.operators.operator_table import Operator
from porism.frontends.tensor_functions import xp
from porism.tensor.network.sliding_windows import sliding_windows
from porism.tensor.tensor import Tensor


def _waves(length: int, count: int, inverse: bool, dtype: Any) -> tuple[Any, Any]:
    """Return cosines and sines (length, count) of the transform, exact to the last bits."""
    product = np.outer(np.arange(length), np.arange(count)) % length
    angle = product * (2 * math.pi / length)
    sign = 1 if inverse else -1
    return np.cos(angle).astype(dtype), (sign * np.sin(angle)).astype(dtype)


def fourier(
    call: Call, real: Value, imaginary: Value, count: int, inverse: bool
) -> tuple[Value, Value]:
    """Return the transform over the last axis, the first `count` terms of it."""
    length = real.shape[-1]
    cosines, sines = (call.constant(w) for w in _waves(length, count, inverse, real.dtype.numpy))
    out_real, out_imaginary = xp.matmul(real, cosines), xp.matmul(real, sines)
    if imaginary is not None:
        out_real = out_real - xp.matmul(imaginary, sines)
        out_imaginary = out_imaginary + xp.matmul(imaginary, cosines)
    if inverse:
        out_real, out_imaginary = out_real / length, out_imaginary / length
    return out_real, out_imaginary


def _resized(x: Value, length: int) -> Value:
    """Return x cut or padded with zeros to a length of its last axis."""
    pads = [(0, 0)] * (x.ndim - 1) + [(0, length - x.shape[-1])]
    return x if x.shape[-1] == length else xp.pad(x, pads)


def _dft(call: Call) -> Value:
    x = call.tensor(0)
    if call.version >= 20:
        axis = int(call.scalar(2, -2))
    else:
        axis = call.integer("axis", 1)
    axis = call.axis(axis, x.ndim)
    inverse, onesided = bool(call.integer("inverse")), bool(call.integer("onesided"))
    length = int(call.scalar(1, 0)) or x.shape[axis]
    if x.shape[-1] not in (1, 2) or axis == x.ndim - 1:
        raise call.error(f"DFT of shape {x.shape}", "the last axis is the real and imaginary part")
    real = xp.moveaxis(x[..., 0], axis, -1)
    imaginary = xp.moveaxis(x[..., 1], axis, -1) if x.shape[-1] == 2 else None
    if onesided and inverse:
        full = length if call.has(1) else 2 * (x.shape[axis] - 1)
        return _inverse_onesided(call, real, imaginary, full, axis)
    check_shape(call, [length, length], 4)
    real = _resized(real, length)
    imaginary = None if imaginary is None else _resized(imaginary, length)
    count = length // 2 + 1 if onesided else length
    parts = fourier(call, real, imaginary, count, inverse)
    return xp.stack([xp.moveaxis(part, -1, axis) for part in parts], axis=-1).astype(x.dtype)


def _inverse_onesided(call: Call, real: Value, imaginary: Value, length: int, axis: int) -> Value:
    """Return the real signal whose spectrum is given up to its middle."""
    terms = length // 2 + 1
    real = _resized(real, terms)
    if imaginary is None:
        imaginary = real * 0
    imaginary = _resized(imaginary, terms)
    product = np.outer(np.arange(terms), np.arange(length)) % length
    angle = product * (2 * math.pi / length)
    twice = np.full((terms, 1), 2.0)
    twice[0] = 1
    if length % 2 == 0:
        twice[-1] = 1
    dtype = real.dtype.numpy
    cosines = call.constant((np.cos(angle) * twice / length).astype(dtype))
    sines = call.constant((np.sin(angle) * twice / length).astype(dtype))
    signal = xp.matmul(real, cosines) - xp.matmul(imaginary, sines)
    return xp.expand_dims(xp.moveaxis(signal, -1, axis), -1)


def _stft(call: Call) -> Value:
    signal = call.tensor(0)
    step = int(call.scalar(1))
    window = call.optional(2)
    onesided = bool(call.integer("onesided", 1))
    if call.has(3):
        length = int(call.scalar(3))
    elif window is not None:
        length = window.shape[0]
    else:
        raise call.error("STFT without a window and a length", "one of them is needed")
    parts = [signal] if signal.ndim == 2 else [signal[..., k] for k in range(signal.shape[-1])]
    frames = []
    for part in parts:
        if step < 1 or part.shape[1] < length:
            raise call.error(
                f"STFT of {part.shape[1]} samples in frames of {length}, {step} apart",
                "there is no frame",
            )
        view = Tensor(sliding_windows(part.node, [1], [length], [step], [1]))
        frames.append(view if window is None else view * window)
    count = length // 2 + 1 if onesided else length
    real, imaginary = fourier(call, frames[0], frames[1] if len(frames) > 1 else None, count, False)
    return xp.stack([real, imaginary], axis=-1)


# -- windows and filters ---------------------------------------------------------------------------


def _window(*coefficients: float) -> Any:
    """Return the builder of a window that is a sum of cosines."""

    def build(call: Call) -> Value:
        size = int(call.scalar(0))
        check_shape(call, [size], 8)
        dtype = onnx_types.numpy_dtype(call.integer("output_datatype", 1))
        period = size if call.integer("periodic", 1) else max(size - 1, 1)
        angle = 2 * math.pi * np.arange(size) / period
        total = sum(c * np.cos(k * angle) for k, c in enumerate(coefficients))
        return np.asarray(total, np.float64).astype(dtype)

    return build


def _mel_weight_matrix(call: Call) -> Value:
    bins, length, rate = (int(call.scalar(k)) for k in range(3))
    low, high = float(call.scalar(3)), float(call.scalar(4))
    dtype = onnx_types.numpy_dtype(call.integer("output_datatype", 1))
    spectrum = length // 2 + 1
    check_shape(call, [spectrum, bins], 8)
    low_mel = 2595 * np.log10(1 + low / 700)
    high_mel = 2595 * np.log10(1 + high / 700)
    mels = low_mel + np.arange(bins + 2) * ((high_mel - low_mel) / (bins + 2))
    hertz = 700 * (np.power(10, mels / 2595) - 1)
    edges = np.floor((length + 1) * hertz / rate).astype(np.int64)
    output = np.zeros((spectrum, bins), np.float64)
    for k in range(bins):
        lower, centre, upper = edges[k : k + 3]
        for j in range(lower, centre + 1):
            if 0 <= j < spectrum:
                output[j, k] = 1 if centre == lower else (j - lower) / (centre - lower)
        for j in range(centre, upper):
            if 0 <= j < spectrum and upper > centre:
                output[j, k] = (upper - j) / (upper - centre)
    return output.astype(dtype)


OPERATORS: Final = (
    Operator("DFT", _dft),
    Operator("STFT", _stft),
    Operator("HannWindow", _window(0.5, -0.5)),
    Operator("HammingWindow", _window(25 / 46, -21 / 46)),
    Operator("BlackmanWindow", _window(0.42, -0.5, 0.08)),
    Operator("MelWeightMatrix", _mel_weight_matrix),
)
"""The rows of this module."""
