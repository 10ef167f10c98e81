"""Segmented loops: parts of a loop that are computed differently have code of their own."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pytest

import porism
from porism import Split, Upcast
from porism.optimize.actions.action import Action
from porism.optimize.strategy.segmented_loops import MAX_SEGMENTS

Arrays = Sequence[npt.NDArray[np.float32]]


def arrays(count: int, *shape: int) -> Arrays:
    rng = np.random.default_rng(count)
    return [rng.standard_normal(shape, dtype=np.float32) for _ in range(count)]


def actions_of(result: porism.Tensor) -> Sequence[Action]:
    return porism.kernels(result)[-1].actions


@pytest.mark.parametrize(("count", "shape", "axis"), [(8, (4, 6, 10), 1), (3, (128,), 0)])
def test_equal_parts_of_a_concatenation_have_code_of_their_own(
    count: int, shape: tuple[int, ...], axis: int
) -> None:
    parts = arrays(count, *shape)
    result = porism.concat([porism.asarray(part) for part in parts], axis=axis)
    split, unrolled, *_ = actions_of(result)
    assert isinstance(split, Split)
    assert unrolled == Upcast(f"{split.axis}_0", count)
    np.testing.assert_array_equal(result.numpy(), np.concatenate(parts, axis))


def test_parts_of_one_row_are_unrolled() -> None:
    parts = arrays(MAX_SEGMENTS, 5, 40)
    result = porism.stack([porism.asarray(part) for part in parts], axis=1)
    assert len(porism.kernels(result)) == 1
    assert Upcast("r1", MAX_SEGMENTS) in actions_of(result)
    np.testing.assert_array_equal(result.numpy(), np.stack(parts, 1))


def test_lengths_with_a_common_part() -> None:
    """Of 100, 200 and 100 columns the segments have 100: the middle one is copied twice."""
    parts = [*arrays(1, 3, 100), *arrays(1, 3, 200), *arrays(1, 3, 100)]
    result = porism.concat([porism.asarray(part) for part in parts], axis=1)
    assert Upcast("r1_0", 4) in actions_of(result)
    np.testing.assert_array_equal(result.numpy(), np.concatenate(parts, 1))


@pytest.mark.parametrize("lengths", [(100, 101), (1, 254), (7, 8, 9)])
def test_lengths_without_a_common_part_are_left(lengths: tuple[int, ...]) -> None:
    parts = [array for n in lengths for array in arrays(1, 3, n)]
    result = porism.concat([porism.asarray(part) for part in parts], axis=1)
    assert not any(isinstance(action, Split) for action in actions_of(result))
    np.testing.assert_array_equal(result.numpy(), np.concatenate(parts, 1))
