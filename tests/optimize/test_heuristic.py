"""Heuristic: its actions are legal, whatever the extents."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Final

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import porism
from porism.base.errors import ActionError
from porism.base.settings import settings as options
from porism.optimize.strategy import streaming_strategy
from tests.optimize.programs import kernel_of, values

SIZES: Final = (1, 2, 3, 5, 7, 8, 14, 16, 31, 56, 64, 100, 127, 197, 256, 384, 500, 1000, 1024)
LARGEST: Final = 1 << 24


def normalized(x: Any, axis: int) -> Any:
    return (x - x.mean(axis=axis, keepdims=True)) / porism.sqrt(x.var(axis=axis, keepdims=True))


PROGRAMS: Final[dict[str, Callable[[Any, int], Any]]] = {
    "softmax": lambda x, axis: porism.softmax(x, axis=axis),
    "log_softmax": lambda x, axis: porism.log_softmax(x, axis=axis),
    "normalized": normalized,
    "argmax": lambda x, axis: porism.argmax(x, axis=axis),
    "sum": lambda x, axis: x.sum(axis=axis),
    "max of all but one": lambda x, axis: x.max(axis=[k for k in range(x.ndim) if k != axis]),
    "cumsum": lambda x, axis: porism.cumsum(x, axis=axis),
    "moved": lambda x, axis: porism.exp(porism.moveaxis(x, axis, 0)) + 1,
    "concat": lambda x, axis: porism.concat([x, x * 2], axis=axis),
}


@settings(max_examples=40, deadline=None)
@given(st.sampled_from(sorted(PROGRAMS)), st.lists(st.sampled_from(SIZES), min_size=1, max_size=4),
       st.data())  # fmt: skip
def test_the_actions_are_legal(name: str, shape: list[int], data: st.DataObject) -> None:
    while math.prod(shape) > LARGEST:
        shape = [size // 2 + 1 for size in shape]
    axis = data.draw(st.integers(0, len(shape) - 1))
    x = porism.asarray(np.zeros(shape, np.float32))
    with options.override(check=True):  # which refuses what is illegal
        for kernel in porism.kernels(PROGRAMS[name](x, axis)):
            assert isinstance(kernel.actions, tuple)


@pytest.mark.parametrize("shape", [(64, 100, 256), (3, 40, 512), (2, 33, 1024)])
def test_a_middle_axis_with_many_columns(shape: tuple[int, ...]) -> None:
    """The columns are unrolled already, so the sum over the local buffer stays a loop."""
    x = values(*shape)
    kernel = kernel_of(porism.softmax(x, axis=1))
    assert porism.opt(kernel, kernel.actions).check() < 1e-5


@pytest.mark.parametrize("order", [(2, 1, 0), (2, 0, 1), (1, 2, 0)])
def test_transposed_tiles_of_odd_extents_overlap(order: tuple[int, ...]) -> None:
    """Masked both ways they would not be transposed in registers."""
    x = values(33, 20, 41)
    result = x.permute(*order) * 2
    kernel = kernel_of(result)
    names = [type(action).__name__ for action in kernel.actions]
    assert names.count("OverlapTail") == 2
    assert "PadTo" not in names
    np.testing.assert_array_equal(result.numpy(), np.transpose(x.numpy(), order) * np.float32(2))


def test_reductions_inside_of_reductions_are_unrolled_within_the_limit() -> None:
    """The lanes of the rows, of the sums and of the maximum are counted together."""
    x = values(14, 38)
    rows = porism.arange(14, dtype="int32")
    is_below = (rows[None] <= rows[:, None])[:, :, None]
    result = porism.where(is_below, x[None], 0).sum(1).max(1)
    with options.override(check=True):
        assert kernel_of(result).actions
    np.testing.assert_allclose(result.numpy(), np.cumsum(x.numpy(), 0).max(1), rtol=1e-6)


def test_an_illegal_action_of_a_strategy_costs_speed_only(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def refuses(*_: object) -> Any:
        raise ActionError("a loop of 7 iterations is unrolled by 3")

    monkeypatch.setattr(streaming_strategy, "plan_streaming", refuses)
    x = values(7, 11)
    with options.override(cache=False, check=False):
        assert kernel_of(x * 3 + 7).actions == ()
        np.testing.assert_array_equal((x * 3 + 7).numpy(), x.numpy() * 3 + 7)
        with options.override(check=True), pytest.raises(ActionError):
            _ = kernel_of(x * 3 + 7).actions
