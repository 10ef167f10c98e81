"""Realization: compute several tensors in one program; how much memory values take."""

from __future__ import annotations

from typing import Any

from porism.base.device_use import HOST
from porism.base.settings import settings
from porism.engine.device.device_table import find_device
from porism.engine.run import array_allocator as engine_memory
from porism.engine.run.array_allocator import MemoryUsage
from porism.tensor.jit.nested_values import leaves
from porism.tensor.jit.replay import realize_tensors
from porism.tensor.jit.tracing import current
from porism.tensor.standard.devices import check_device
from porism.tensor.tensor import Tensor


def realize(*tensors: Any, beam: int | None = None) -> None:
    """Compute tensors in one program, so that common subexpressions are computed once.

    Each argument is a tensor, or a dict, list, tuple or dataclass with tensors in it. With `beam`
    new kernels are tuned first, as the setting of that name says.

    >>> import porism
    >>> x = porism.arange(3)
    >>> y, z = x + 1, x * 2
    >>> porism.realize(y, {"z": z})
    >>> y, z
    (Tensor([1, 2, 3], shape=(3,), dtype=int64), Tensor([0, 2, 4], shape=(3,), dtype=int64))
    """
    if current.get() is not None:
        return  # a call of the jitted function computes them
    requested = [leaf for _, leaf in leaves(tensors) if isinstance(leaf, Tensor)]
    if beam is None:
        realize_tensors(requested)
    else:
        with settings.override(beam=beam):
            realize_tensors(requested)


def memory(device: Any = None) -> MemoryUsage:
    """Return the memory for values in bytes: in use, kept in the pool, and the peak.

    It is that of the processor, unless a device is given.

    >>> import porism
    >>> before = porism.memory().in_use
    >>> x = (porism.zeros(1000, dtype="uint8") + 1).realize()
    >>> porism.memory().in_use - before
    1024
    """
    name = check_device(device)
    if name is None or name == HOST:
        return engine_memory.memory_usage()
    return find_device(name).memory_usage()
