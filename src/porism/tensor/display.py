"""Display: the text of a tensor, in a terminal and in a notebook; it computes nothing.

A realized tensor shows its values as NumPy does, a long one in part. Any other says that it is
lazy: its values are computed when they are asked for.
"""

from __future__ import annotations

import numpy as np

from porism.engine.run.buffer_storage import find_storage, host_array_of, realized_buffer
from porism.gradient.stated_pullbacks import stated_value
from porism.ir.facts.semantics import Array
from porism.tensor.promotion import name_of
from porism.tensor.shapes import to_text
from porism.tensor.tensor import Tensor, method, operator


def _values(x: Tensor) -> Array | None:
    """Return the values of a realized tensor, on another device a copy; None of a lazy one."""
    buffer = realized_buffer(stated_value(x.value_node))
    if buffer is None or find_storage(buffer) is None:
        return None
    return host_array_of(buffer).reshape([int(size.arg) for size in buffer.src])


@operator("repr")
def _repr(x: Tensor) -> str:
    """Return the values of a realized tensor, its shape and its type."""
    values = _values(x)
    shown = "lazy" if values is None else np.array2string(values, separator=", ", prefix="Tensor(")
    kept = "" if x._leaf is None else ", requires_grad=True"
    return f"Tensor({shown}, shape={to_text(x.shape)}, dtype={name_of(x.value_node.dtype)}{kept})"


@method
def _repr_html_(x: Tensor) -> str:
    """Return the text of the tensor for a notebook."""
    import html

    return f"<pre>{html.escape(repr(x))}</pre>"
