"""Reductions over indices that name elements become stores at these elements."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Final

import numpy as np
import pytest

import porism
from porism.base.errors import PorismError
from porism.base.settings import settings
from porism.ir import ops
from porism.ir.axis import Axis
from porism.ir.facts.semantics import Array
from porism.ir.node import UOp
from porism.ir.traversal import toposort
from porism.optimize.actions.loop_substitution import ranges_of
from porism.optimize.actions.loops.loop_interchange import Swap
from porism.optimize.actions.loops.parallel_loop import Thread
from porism.optimize.actions.loops.upcast_unroll import Unroll, Upcast
from porism.schedule.loops.scatter_stores import MIN_EXTENT
from tests.backends.running import works

BACKENDS: Final = [
    pytest.param(name, marks=pytest.mark.skipif(not works(name), reason="no compiler"))
    for name in ("llvm", "c", "reference")
]
MANY: Final = 3 * MIN_EXTENT


def random() -> np.random.Generator:
    return np.random.default_rng(7)


def is_ordered(kernel: UOp) -> bool:
    return any(r.arg[1] is Axis.ORDERED for r in ranges_of(kernel))


def scattering(*tensors: Any) -> list[UOp]:
    """The kernels that store at elements which indices name."""
    return [k.node for t in tensors for k in porism.kernels(t) if is_ordered(k.node)]


def stored(tensor: Any) -> int:
    """How often the kernels of a tensor store something."""
    ends = [n for k in porism.kernels(tensor) for n in toposort(k.node) if n.op is ops.END]
    return sum(math.prod(int(r.vmax) + 1 for r in end.src[1:]) for end in ends)


# -- values ----------------------------------------------------------------------------------------


def indices(size: int, count: int, *shape: int) -> Array:
    """Indices from both ends, many of which name the same."""
    return random().integers(-size, size, (count, *shape))


def assigned_rows() -> tuple[Any, Array]:
    data, at = np.zeros((MANY, 5), np.float32), indices(MANY, 4 * MANY)
    rows = random().normal(size=(len(at), 5)).astype(np.float32)
    x = porism.asarray(data)
    x[porism.asarray(at)] = porism.asarray(rows)
    data[at] = rows
    return x, data


def assigned_elements() -> tuple[Any, Array]:
    data = np.arange(MANY * 40, dtype=np.int32).reshape(MANY, 40)
    first, second = indices(MANY, 500), indices(40, 500)
    x, numbers = porism.asarray(data), np.arange(500, dtype=np.int32)
    x[porism.asarray(first), porism.asarray(second)] = numbers
    expected = data.copy()
    expected[first, second] = numbers
    return x, expected


def assigned_across() -> tuple[Any, Array]:
    data, at = np.zeros((3, MANY, 4)), indices(MANY, 200)
    values = random().normal(size=(3, 200, 4))
    x = porism.asarray(data)
    x[:, porism.asarray(at)] = porism.asarray(values)
    data[:, at] = values
    return x, data


def scattered(reduce: str, merge: Any) -> Callable[[], tuple[Any, Array]]:
    def build() -> tuple[Any, Array]:
        data, at = random().normal(size=(MANY, 3)), indices(MANY, 5 * MANY, 3)
        values = random().normal(size=at.shape)
        actual = porism.scatter(
            porism.asarray(data), 0, porism.asarray(at), porism.asarray(values), reduce=reduce
        )
        merge.at(data, (at, np.broadcast_to(np.arange(3), at.shape)), values)
        return actual, data

    return build


def counted() -> tuple[Any, Array]:
    at = random().integers(0, MANY, 1000)
    return porism.bincount(porism.asarray(at), length=MANY), np.bincount(at, minlength=MANY)


def weighed() -> tuple[Any, Array]:
    at, weights = random().integers(0, MANY, 1000), random().normal(size=1000)
    actual = porism.bincount(porism.asarray(at), porism.asarray(weights), length=MANY)
    return actual, np.bincount(at, weights, MANY)


def added_rows() -> tuple[Any, Array]:
    data, at = np.ones((MANY, 8)), random().integers(0, MANY, 200)
    rows = random().normal(size=(200, 8))
    actual = porism.index_add(porism.asarray(data), 0, porism.asarray(at), porism.asarray(rows))
    np.add.at(data, at, rows)
    return actual, data


def one_hot_product() -> tuple[Any, Array]:
    at, values = random().integers(0, MANY, 300), random().normal(size=(300, 8))
    named = porism.asarray(at).reshape(1, 300, 1) == porism.arange(MANY).reshape(MANY, 1, 1)
    actual = porism.where(named, porism.asarray(values), 0.0).sum(1)
    expected = np.zeros((MANY, 8))
    np.add.at(expected, at, values)
    return actual, expected


PROGRAMS: Final[dict[str, Callable[[], tuple[Any, Array]]]] = {
    "assigned rows": assigned_rows,
    "assigned elements": assigned_elements,
    "assigned across": assigned_across,
    "scatter add": scattered("add", np.add),
    "scatter multiply": scattered("multiply", np.multiply),
    "scatter min": scattered("min", np.minimum),
    "scatter max": scattered("max", np.maximum),
    "bincount": counted,
    "bincount with weights": weighed,
    "index_add": added_rows,
    "a product with a one-hot matrix": one_hot_product,
}


@pytest.mark.slow
@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("name", PROGRAMS)
def test_values(name: str, backend: str) -> None:
    with settings.override(backend=backend):
        actual, expected = PROGRAMS[name]()
        assert scattering(actual), "there is nothing to test"
        np.testing.assert_allclose(actual.numpy(), expected, rtol=1e-12)


@pytest.mark.parametrize("name", PROGRAMS)
def test_no_element_looks_at_all_indices(name: str) -> None:
    actual, expected = PROGRAMS[name]()
    assert stored(actual) <= 4 * expected.size + 20 * 5 * MANY


@pytest.mark.parametrize("count", [3, 20, MIN_EXTENT - 1, MIN_EXTENT, MIN_EXTENT + 1, 100])
@pytest.mark.parametrize("size", [20, MIN_EXTENT - 1, MANY])
def test_few_and_many(size: int, count: int) -> None:
    """Both ways, with loops whose sizes fit no vector."""
    data, at = np.zeros((size, 8), np.float32), indices(size, count)
    values = random().normal(size=(count, 8)).astype(np.float32)
    x = porism.asarray(data)
    x[porism.asarray(at)] = porism.asarray(values)
    lanes = np.repeat(at[:, None], 8, 1)
    y = porism.scatter(porism.asarray(data), 0, porism.asarray(lanes), porism.asarray(values))
    expected = data.copy()
    expected[at] = values
    np.testing.assert_array_equal(x.numpy(), expected)
    np.testing.assert_array_equal(y.numpy(), expected)


def test_the_last_of_equal_indices_wins() -> None:
    x = porism.zeros(MANY, dtype="int64")
    x[porism.asarray(np.full(1000, 5))] = porism.arange(1000)
    assert x[5].item() == 999
    assert x.sum().item() == 999


def test_indices_outside_name_nothing() -> None:
    at = np.array([-1, MANY, 2**40, -(2**40), 3] * MIN_EXTENT)
    counts = porism.bincount(porism.asarray(at), length=MANY)
    assert scattering(counts)
    assert counts.tolist() == [MIN_EXTENT * (k == 3) for k in range(MANY)]


def test_sums_are_added_in_order() -> None:
    """As a sequential sum has it, to the last bit."""
    values = (random().normal(size=4000) * 10.0 ** random().integers(-6, 6, 4000)).astype(
        np.float32
    )
    at = random().integers(0, MANY, 4000)
    expected = np.zeros(MANY, np.float32)
    np.add.at(expected, at, values)
    actual = porism.scatter_add(porism.zeros(MANY), 0, porism.asarray(at), porism.asarray(values))
    np.testing.assert_array_equal(actual.numpy(), expected)


def test_old_values_stay() -> None:
    data = np.zeros((MANY, 4), np.float32)
    x = porism.asarray(data)
    before, doubled = x * 1, x * 2
    x[porism.asarray(indices(MANY, 100))] = 1.0
    assert (x.sum().item() > 0, before.sum().item(), doubled.sum().item()) == (True, 0, 0)
    assert data.sum() == 0


# -- kernels ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(("size", "count"), [(MANY, MIN_EXTENT - 1), (MIN_EXTENT - 1, MANY)])
def test_where_there_are_few_all_are_compared(size: int, count: int) -> None:
    counts = porism.bincount(porism.asarray(np.arange(count) % size), length=size)
    assert not scattering(counts)
    assert counts.sum().item() == count


def test_the_ordered_loop_is_left_alone() -> None:
    """No action shares its iterations or makes lanes of them, and one thread runs the kernel."""
    (kernel,) = (k for k in porism.kernels(PROGRAMS["index_add"]()[0]) if is_ordered(k.node))
    (loop,) = (r for r in ranges_of(kernel.node) if r.arg[1] is Axis.ORDERED)
    (inner,) = (r for r in ranges_of(kernel.node) if r.arg[0] > loop.arg[0])
    name, other = (f"r{r.arg[0][0]}" for r in (loop, inner))
    swapped = Swap(name, other)
    for actions in ([Thread(name)], [Upcast(name, 2)], [Unroll(name, 2)], [swapped, Thread(other)]):
        with pytest.raises(PorismError, match=r"ordered|depend on each other"):
            porism.opt(kernel, actions)
    actual = porism.opt(kernel, [Upcast(other, 4)])
    assert is_ordered(actual.node)


@pytest.mark.parametrize("columns", [4, 32])
def test_a_scatter_fills_no_local_buffer_in_each_iteration(columns: int) -> None:
    data = porism.zeros((MANY, columns)).realize()
    at = porism.asarray(indices(MANY, 2 * MANY, columns)).realize()
    values = porism.asarray(np.ones((2 * MANY, columns), np.float32)).realize()
    (kernel,) = scattering(porism.scatter_add(data, 0, at, values * 2))
    assert not any(node.op is ops.BUFFERIZE for node in toposort(kernel))


def test_values_that_depend_on_the_element_are_compared() -> None:
    """What an index brings must be known without the element that it names."""
    at = porism.asarray(indices(MANY, MANY))
    elements = porism.arange(MANY).reshape(MANY, 1)
    actual = porism.where(at.reshape(1, MANY) == elements, elements + at, 0).sum(1)
    assert not scattering(actual)
    expected = np.zeros(MANY, np.int64)
    positive = at.numpy()[at.numpy() >= 0]
    np.add.at(expected, positive, 2 * positive)
    assert actual.tolist() == expected.tolist()
