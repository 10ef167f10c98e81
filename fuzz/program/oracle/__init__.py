"""The oracle: every public function that computes a tensor, written with NumPy.

Each function has the name and the arguments that it has in `porism`, where its meaning is said.
Arrays of floats are float64 whatever the type of the tensor is: the oracle says what is computed,
and `values` how far a type may be from it. Integers and bools have the type of the tensor.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np

from fuzz.program.oracle import (
    activations,
    elementwise,
    movement,
    networks,
    reductions,
    statistics,
    windows,
)
from fuzz.program.oracle.arrays import floats

_SAME: Final = (
    "tril triu add subtract multiply remainder negative positive abs maximum minimum square"
    " sign floor ceil trunc round less less_equal greater greater_equal equal not_equal isnan isinf"
    " isfinite bitwise_and bitwise_or bitwise_xor bitwise_invert logical_and logical_or"
    " logical_xor logical_not signbit expand_dims swapaxes"
    " moveaxis matrix_transpose flip broadcast_to broadcast_arrays tile stack roll meshgrid where"
    " conj real imag angle clip pow matmul dot outer einsum max min amax amin mean any all"
    " argmax argmin fmax fmin fmod isclose isposinf isneginf vstack hstack dstack column_stack"
    " atleast_1d atleast_2d atleast_3d flipud fliplr diag diagflat inner vdot"
    " gcd lcm"
)
"""Functions that NumPy has with the same name, arguments and meaning."""

_IN_FLOATS: Final = (
    "sqrt exp exp2 expm1 log log2 log10 log1p logaddexp sinh cosh tanh asinh acosh atanh sin cos"
    " tan asin acos atan atan2 hypot copysign cbrt deg2rad"
    " rad2deg sinc heaviside"
)
"""The same, but that NumPy computes them of narrow integers in narrow floats."""


def _of_numpy(name: str) -> Callable[..., Any]:
    function: Callable[..., Any] = getattr(np, name)
    return function


def _in_floats(name: str) -> Callable[..., Any]:
    function = _of_numpy(name)
    return lambda *values: function(*map(floats, values))


FUNCTIONS: Final[dict[str, Callable[..., Any]]] = {
    **{name: _of_numpy(name) for name in _SAME.split()},
    **{name: _in_floats(name) for name in _IN_FLOATS.split()},
    **{
        name: function
        for module in (elementwise, movement, reductions, networks, activations, statistics)
        for name, function in vars(module).items()
        if getattr(function, "__module__", "") == module.__name__ and name[0] != "_"
    },
    **windows.FUNCTIONS,
    **statistics.NAN_REDUCTIONS,
    **statistics.NAN_QUANTILES,
}
"""By name."""
