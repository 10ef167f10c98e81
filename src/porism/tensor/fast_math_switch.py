"""Fast math: computations in which rules may change float results, for the sake of speed."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from porism.base.settings import settings
from porism.tensor.promotion import type_error


@contextmanager
def fast_math(on: bool = True) -> Iterator[None]:
    """Let rules change float results of what is computed inside a `with` block, in this thread.

    A tensor is computed when its value is asked for, so that must be inside of the block. What each
    rule changes is told in docs/fast_math.md. With `on=False` results are those of IEEE 754 again.

    >>> import porism
    >>> x = porism.asarray([1.0, porism.inf])
    >>> with porism.fast_math():
    ...     print((x * 0.0).tolist())
    [0.0, 0.0]
    >>> print((x * 0.0).tolist())
    [0.0, nan]
    """
    if not isinstance(on, bool):
        raise type_error(f"fast_math({on!r})", "it is a switch", "pass True or False")
    with settings.override(fast_math=on):
        yield
