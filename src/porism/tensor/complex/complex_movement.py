"""Complex movement: functions that move elements are applied to both parts.

So are sums and means, which are linear.
"""

from __future__ import annotations

from typing import Any, Final

from porism.gradient.stated_pullbacks import stopped
from porism.tensor import namespace
from porism.tensor.complex.complex_arithmetic import pair
from porism.tensor.complex.complex_dispatch import complex_operand
from porism.tensor.complex.complex_tensor import (
    ComplexTensor,
    as_complex,
    common_type,
    implements,
    is_complex,
)
from porism.tensor.promotion import PART_TYPE, as_dtype, name_of
from porism.tensor.standard.devices import on_device
from porism.tensor.tensor import Tensor

MOVING: Final = (
    "reshape flatten unflatten expand_dims unsqueeze squeeze permute_dims permute transpose"
    " swapaxes moveaxis matrix_transpose flip broadcast_to expand diagonal repeat tile unfold"
    " take index_select take_along_axis gather split chunk unstack roll tril triu"
    " diag diagflat diag_embed nan_to_num mean gradient trapezoid"
)
"""Functions that apply to both parts of their first operand."""

SUMS: Final = "sum cumulative_sum cumsum trace"
"""Functions that apply to both parts, and have the argument `dtype`."""


def _on_parts(name: str) -> Any:
    """Return the implementation that applies a function to both parts of its first operand."""

    def apply(x: Any, *args: Any, **kwargs: Any) -> Any:
        _require_complex(name, x)
        z = as_complex(x)
        function = namespace.find(name)
        return zip_parts(
            function(z.real_part, *args, **kwargs), function(z.imag_part, *args, **kwargs)
        )

    return apply


def _require_complex(name: str, *operands: Any) -> None:
    """Refuse a call in which another argument than these operands is complex."""
    if not any(map(is_complex, operands)):
        raise complex_operand(f"{name} with complex numbers in another argument than the first")


def _sum_of_parts(name: str) -> Any:
    """Return the implementation of a sum, which converts to a complex type first."""

    def apply(x: Any, *args: Any, dtype: Any = None, **kwargs: Any) -> Any:
        z = as_complex(x, None if dtype is None else as_dtype(dtype))
        return _on_parts(name)(z, *args, **kwargs)

    return apply


def zip_parts(real: Any, imag: Any) -> Any:
    """Return complex tensors of tensors, or lists of them, that are the parts."""
    if isinstance(real, Tensor):
        return pair(real, imag)
    return type(real)(map(zip_parts, real, imag))


for _name in MOVING.split():
    implements(_name)(_on_parts(_name))
for _name in SUMS.split():
    implements(_name)(_sum_of_parts(_name))


def _joined(name: str) -> Any:
    """Return the implementation of a function of a sequence of tensors."""

    def apply(arrays: Any, *args: Any, **kwargs: Any) -> Any:
        tensors = _all_complex(list(arrays))
        function = namespace.find(name)
        return zip_parts(
            function([z.real_part for z in tensors], *args, **kwargs),
            function([z.imag_part for z in tensors], *args, **kwargs),
        )

    return apply


def _all_complex(values: list[Any]) -> list[ComplexTensor]:
    """Return operands as complex tensors of one type."""
    common = common_type(*values)
    return [as_complex(value, common) for value in values]


implements("concat")(_joined("concat"))
implements("stack")(_joined("stack"))


def _scattered(name: str) -> Any:
    """Return the implementation of a function that stores or adds values at indices."""

    def apply(x: Any, axis: int, index: Any, src: Any, *, reduce: Any = None, **rest: Any) -> Any:
        if reduce not in (None, "add"):
            raise complex_operand(f"{name} of a complex tensor with reduce={reduce!r}")
        _require_complex(name, x, src)
        target = as_complex(x)
        source = as_complex(src, target.dtype)
        if "alpha" in rest:
            source = as_complex(source * rest.pop("alpha"), target.dtype)
        chosen = rest if reduce is None else {**rest, "reduce": reduce}
        function = namespace.find(name)
        return pair(
            function(target.real_part, axis, index, source.real_part, **chosen),
            function(target.imag_part, axis, index, source.imag_part, **chosen),
        )

    return apply


for _name in ("scatter", "scatter_add", "index_add"):
    implements(_name)(_scattered(_name))


@implements("pad")
def _pad(x: Any, pad_width: Any, mode: str = "constant", value: Any = 0) -> Tensor:
    """Return both parts padded, each with its part of the value."""
    _require_complex("pad", x, value)
    z, function, number = as_complex(x), namespace.find("pad"), complex(value)
    return pair(
        function(z.real_part, pad_width, mode, number.real),
        function(z.imag_part, pad_width, mode, number.imag),
    )


@implements("meshgrid")
def _meshgrid(*arrays: Any, **kwargs: Any) -> Any:
    tensors = _all_complex(list(arrays))
    function = namespace.find("meshgrid")
    return zip_parts(
        function(*(z.real_part for z in tensors), **kwargs),
        function(*(z.imag_part for z in tensors), **kwargs),
    )


@implements("broadcast_arrays")
def _broadcast_arrays(*arrays: Any) -> Any:
    shape = namespace.find("broadcast_shapes")(*(x.shape for x in arrays))
    return tuple(namespace.find("broadcast_to")(x, shape) for x in arrays)


@implements("assign")
def _assign(x: ComplexTensor, value: Any) -> Tensor:
    new = as_complex(value, x.dtype)
    x.real_part.assign(new.real_part)
    x.imag_part.assign(new.imag_part)
    return x


# -- creation --------------------------------------------------------------------------------------


@implements("asarray")
def _asarray(obj: Any, *, dtype: Any = None, device: Any = None, copy: bool | None = None) -> Any:
    wanted = None if dtype is None else as_dtype(dtype)
    if wanted is not None and wanted not in PART_TYPE:
        return namespace.find("astype")(as_complex(obj), wanted, device=device)
    z = on_device(as_complex(obj, wanted), device)
    if copy is False and z is not obj:
        from porism.tensor.memory.shared_memory import refused

        raise refused(obj, "the parts of complex tensors have memory of their own")
    return ComplexTensor(z.real, z.imag) if z is obj and copy else z


@implements("tensor")
def _tensor(
    data: Any, dtype: Any = None, *, device: Any = None, requires_grad: bool = False
) -> Any:
    if requires_grad:
        raise complex_operand("a complex tensor that requires a gradient")
    z = _asarray(data, dtype=dtype, device=device, copy=True)
    return pair(*(Tensor(stopped(part.value_node)) for part in (z.real_part, z.imag_part)))


@implements("from_dlpack")
def _from_dlpack(x: Any, *, device: Any = None, copy: bool | None = None) -> Any:
    import numpy as np

    array = x if isinstance(x, Tensor) else np.from_dlpack(x)
    return _asarray(array, device=device, copy=copy)


@implements("full")
def _full(shape: Any, fill_value: Any, *, dtype: Any = None, device: Any = None) -> Any:
    wanted = None if dtype is None else as_dtype(dtype)
    if wanted is not None and wanted not in PART_TYPE:
        return namespace.find("astype")(as_complex(fill_value), wanted, device=device)
    z = as_complex(fill_value, wanted)
    function = namespace.find("full")
    real, imag = (function(shape, part, device=device) for part in (z.real_part, z.imag_part))
    return pair(real, imag)


@implements("eye")
def _eye(*args: Any, dtype: Any, **kwargs: Any) -> Any:
    wanted = as_dtype(dtype)
    return as_complex(namespace.find("eye")(*args, dtype=PART_TYPE[wanted], **kwargs))


@implements("linspace")
def _linspace(start: Any, stop: Any, *args: Any, dtype: Any = None, **kwargs: Any) -> Any:
    wanted = as_dtype("complex64" if dtype is None else dtype)
    if wanted not in PART_TYPE:
        raise complex_operand(f"linspace of complex numbers as {name_of(wanted)}")
    part, function = PART_TYPE[wanted], namespace.find("linspace")
    first, last = complex(start), complex(stop)
    return pair(
        function(first.real, last.real, *args, dtype=part, **kwargs),
        function(first.imag, last.imag, *args, dtype=part, **kwargs),
    )
