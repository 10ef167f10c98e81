"""The table: all functions that random programs call, and why others are not among them.

To add a function of the namespace, write its name at a row of its kind, in `rows`, and its meaning
into `oracle`; without them a test fails.
"""

from __future__ import annotations

from typing import Final

from fuzz.program.rows import (
    activations,
    elementwise,
    indexing,
    movement,
    networks,
    reductions,
    statistics,
    windows,
)
from fuzz.program.rows.row import ROWS
from porism.tensor import namespace
from porism.tensor.tensor import Tensor

__all__ = [
    "EXCLUDED", "EXCLUDED_MODULES", "METHODS", "ROWS",
    "activations", "elementwise", "indexing", "movement", "networks", "reductions", "statistics",
    "windows",
]  # fmt: skip

EXCLUDED: Final = {
    "Tensor": "the type of tensors, which all rows make",
    "Variable": "symbolic sizes; drawn as arguments of other functions",
    "dtype": "the type of types",
    "result_type": "computes no tensor",
    "can_cast": "computes no tensor",
    "finfo": "computes no tensor",
    "iinfo": "computes no tensor",
    "isdtype": "computes no tensor",
    "broadcast_shapes": "computes no tensor",
    "from_dlpack": "shares memory with another library",
    "empty": "its elements have no value that is promised",
    "empty_like": "its elements have no value that is promised",
    "nextafter": "depends on the type to the last bit, and the oracle computes in float64",
    "kernels": "inspection", "explain": "inspection", "profile": "times",
    "verify": "a report; some programs are compiled with the setting",
    "realize": "computes results; the runner of programs calls it",
    "memory": "figures of memory",
    "argwhere": "the size of the result depends on the values",
    "nonzero": "the size of the result depends on the values",
    "unique_all": "the size of the result depends on the values",
    "unique_counts": "the size of the result depends on the values",
    "unique_inverse": "the size of the result depends on the values",
    "unique_values": "the size of the result depends on the values",
    "__array_namespace_info__": "computes no tensor",
    "jit": "the runner of programs calls it",
    "fast_math": "a switch; some programs are run with it",
}  # fmt: skip
"""Names of the namespace that have no row, and why."""

METHODS_EXCLUDED: Final = {
    "T": "`transpose` is written so too", "mT": "`matrix_transpose` is written so too",
    "numpy": "the runner of programs calls it", "item": "a number", "tolist": "numbers",
    "node": "the graph", "device": "a name", "nbytes": "a number",
    "ndim": "a number", "shape": "numbers", "size": "a number", "itemsize": "a number",
    "clone": "the same value", "copy": "the same value", "detach": "the same value",
    "cpu": "the same value", "cuda": "the same value", "contiguous": "the same value",
    "block_until_ready": "`realize`",
    "is_contiguous": "a bool", "is_floating_point": "a bool", "numel": "a number",
    "nelement": "a number", "dim": "a number", "element_size": "a number", "to": "`astype`",
    "type": "`astype`", "type_as": "`astype`", "float": "`astype`", "double": "`astype`",
    "half": "`astype`", "char": "`astype`", "short": "`astype`", "int": "`astype`",
    "long": "`astype`", "byte": "`astype`", "view_as": "`reshape`", "view": "`reshape`",
    "reshape_as": "`reshape`",
    "expand_as": "`broadcast_to`", "t": "`transpose`",
    "value_node": "the graph", "requires_grad": "about derivatives",
    "requires_grad_": "about derivatives", "is_leaf": "about derivatives",
    "backward": "about derivatives",
    "to_device": "the tensor itself",
}  # fmt: skip
"""Public attributes of tensors that are no functions of the namespace, and why they have no row."""

EXCLUDED_MODULES: Final = {
    "autodiff.gradient_functions": "./dev fuzz gradient draws programs for them",
    "autodiff.custom_gradients": "about derivatives; values stay as they are",
    "autodiff.backward": "about derivatives; values stay as they are",
    "inspect.manual_schedule": "actions; some programs are compiled with random ones",
    "api.random": "no oracle gives the same numbers",
    "standard.devices": "names of devices",
}
"""Modules of `namespace` without rows, and why."""

_COMPLEX: Final = (
    "add subtract multiply negative positive square equal not_equal isfinite where abs real"
    " imag conj expand_dims swapaxes moveaxis flip broadcast_to tile stack roll concat reshape"
    " permute_dims transpose flatten squeeze unsqueeze expand matmul dot outer inner tensordot"
    " vecdot vdot einsum sum mean var std any all cumulative_sum cumsum diag diagonal tril triu"
    " pad getitem setitem assign take repeat trace kron split chunk gather index_select"
    " take_along_axis scatter scatter_add index_add diff vstack hstack count_nonzero choose"
    " asarray tensor isclose convolve gradient linear prod cumulative_prod"
)
COMPLEX: Final = frozenset(_COMPLEX.split())
"""Functions that programs of complex numbers call: one program of 25 has them."""

SIZED: Final = {
    "reshape", "broadcast_to", "expand", "unflatten", "full", "zeros", "ones", "arange", "linspace",
    "eye", "split", "chunk", "unstack", "getitem", "setitem", "one_hot", "pixel_shuffle",
    "pixel_unshuffle", "unfold", "gather", "scatter", "scatter_add", "scatter_min", "scatter_max",
    "take_along_axis", "roll", "diagonal", "repeat", "narrow", "tri", "array_split", "hsplit",
    "vsplit", "interpolate", "rot90", "logspace", "geomspace", "embedding",
}  # fmt: skip
"""Functions that are called with sizes as numbers: not where sizes are symbolic."""

namespace.load()  # tensors have all their methods

METHODS: Final = frozenset(name for name in ROWS if callable(getattr(Tensor, name, None)))
"""Rows that are methods of tensors too."""
