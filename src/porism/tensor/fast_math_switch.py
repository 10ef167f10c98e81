"""Fast math: a context in which rewrite rules may change float results for speed."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from porism.base.settings import settings
from porism.tensor.promotion import type_error


@contextmanager
def fast_math(on: bool = True) -> Iterator[None]:
    """Allow rules to change float results of computations inside a `with` block, in this thread.

    A tensor is computed when its value is needed, so that must happen inside the block. What each
    rule changes is in docs/fast_math.md. With `on=False` results are those of IEEE 754 again.

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
