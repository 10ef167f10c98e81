"""Foreign keywords: those that change nothing here, and what to write instead of the others."""

from __future__ import annotations

from typing import Any, Final

NEUTRAL: Final[dict[str, tuple[Any, ...]]] = {
    "out": (None,),
    "where": (True,),
    "device": (None, "cpu"),
    "requires_grad": (False,),
    "order": (None, "C", "K", "A"),
    "casting": ("same_kind", "safe", "unsafe", None),
    "subok": (True, False),
    "ndmin": (0,),
    "like": (None,),
    "copy": (None, True),
    "inplace": (False,),
    "pin_memory": (False,),
    "layout": (None,),
    "generator": (None,),
    "sparse": (False,),
    "retstep": (False,),
    "sorted": (True,),
    "kind": (None, "quicksort", "mergesort", "heapsort", "stable"),
    "stable": (True, False),
    "overwrite_input": (False,),
    "non_blocking": (True, False),
    "memory_format": (None,),
    "precision": (None,),
    "preferred_element_type": (None,),
    "method": ("linear",),
    "interpolation": ("linear",),
    "dtype": (None,),
    "alpha": (1,),
    "rounding_mode": (None,),
    "enable_gqa": (True, False),
    "dropout_p": (0.0, 0),
    "return_indices": (False,),
    "size_average": (None,),
    "reduce": (None,),
    "name": (None,),
    "optimize": (True, False, "optimal", "greedy"),
    "log_target": (False,),
    "scale_grad_by_freq": (False,),
    "max_norm": (None,),
    "antialias": (False,),
    "recompute_scale_factor": (None,),
    "indices_are_sorted": (False, True),
    "unique_indices": (False, True),
}
"""Keywords of other libraries, and their values with which a call is the same without them.

They are dropped only where a function has no such parameter.
"""

INSTEAD: Final[dict[tuple[str, str], str]] = {
    ("where", ""): "write porism.where(condition, x, y), or porism.nonzero(condition)",
    ("", "out"): "assign the result: y = f(x); or copy it into a tensor: y[...] = f(x)",
    ("", "where"): "choose the elements first: porism.where(mask, x, 0), with 1 for a product",
    ("", "initial"): "combine the result with the value: result + initial, porism.maximum(…)",
    ("", "device"): "leave device out: tensors are in the memory of the CPU",
    ("", "order"): "leave order out: elements are in row-major order; transpose with .T",
    ("", "inplace"): "assign the result: x = porism.relu(x)",
    ("", "alpha"): "multiply the second operand: x + alpha * y",
    ("", "rounding_mode"): "write porism.floor_divide(x, y), or porism.trunc(x / y)",
    ("", "dtype"): "convert the operand or the result: x.astype(dtype)",
    ("", "normalized_shape"): "name the axes: porism.layer_norm(x, weight, bias, axis=-1)",
    ("", "momentum"): "write porism.batch_statistics(x, running_mean, running_var, momentum)",
    ("", "dropout_p"): "apply porism.dropout to the result",
    ("", "return_indices"): "write porism.argmax for the index of a maximum",
    ("", "size_average"): "pass reduction='mean' or reduction='sum'",
    ("", "reduce"): "pass reduction='mean', 'sum' or 'none'",
    ("", "method"): "write porism.quantile(x, q), which interpolates linearly",
    ("", "interpolation"): "write porism.quantile(x, q), which interpolates linearly",
    ("", "indices_or_sections"): "write porism.chunk(x, sections), or porism.split(x, sizes)",
    ("", "return_index"): "write porism.unique_all(x)",
    ("", "return_inverse"): "write porism.unique_inverse(x)",
    ("", "return_counts"): "write porism.unique_counts(x)",
    ("", "right"): "pass side='right'",
    ("", "ndmin"): "add axes with porism.expand_dims or x[None]",
    ("", "retstep"): "compute the step: (stop - start) / (num - 1)",
    ("", "kind"): "leave kind out: a sort is stable",
    ("", "generator"): "write porism.seed(n) before",
    ("", "key"): "write porism.seed(n) before: random functions take no key",
    ("", "requires_grad"): "call x.requires_grad_() on the result",
    ("", "base"): "divide: porism.log(x) / math.log(base)",
    ("", "mode"): "leave mode out, or write porism.pad, conv1d or porism.interpolate",
    ("", "sparse"): "leave sparse out: all tensors are dense",
    ("", "mask"): "write porism.where(mask, x, other)",
    ("", "drop_last"): "slice the tensor: x[:n]",
}  # fmt: skip
"""What to write instead of a keyword: of one function, or with the name "" of any.

The keyword "" stands for arguments that are missing.
"""
