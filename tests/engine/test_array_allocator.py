"""The memory of values: used again, but never while somebody sees it; with a limit."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import porism
from porism.base.settings import settings
from porism.engine.run import array_allocator
from porism.engine.run.buffer_storage import array_of
from porism.ir import node_collector
from tests.tensor.threads import in_threads


def ones(*shape: int) -> Any:
    return porism.ones(shape).realize()


def memory_of(tensor: Any) -> Any:
    return array_of(tensor.realize().node)


def test_freed_memory_is_reused() -> None:
    array_allocator.release_pool()
    before = porism.memory()
    array, address = array_allocator.new_array(1000, np.dtype("float32"))
    assert address == array_allocator.address_of(array)
    assert address % array_allocator.ALIGNMENT == 0
    assert porism.memory().in_use == before.in_use + array_allocator.size_class(4000)
    del array
    after = porism.memory()
    assert after.in_use == before.in_use
    assert after.pooled >= 4000
    again, second = array_allocator.new_array(1000, np.dtype("float32"))
    assert second == address
    assert again.size == 1000


def test_memory_behind_a_live_array_is_not_reused() -> None:
    array, address = array_allocator.new_array(64, np.dtype("float32"))
    array[:] = 3
    view = array.reshape(8, 8)[2:4].view(np.int32).T
    del array
    others = [array_allocator.new_array(64, np.dtype("float32")) for _ in range(20)]
    assert all(where != address for _, where in others)
    for other, _ in others:
        other[:] = 5
    assert (view.view() == np.float32(3).view(np.int32)).all()


def test_a_small_allocation_is_reused_with_its_owner() -> None:
    array_allocator.release_pool()
    owner, address = array_allocator.allocate(100)
    number = id(owner)
    del owner
    again, second = array_allocator.allocate(100)
    assert (id(again), second) == (number, address)
    del again
    large, _ = array_allocator.allocate(array_allocator.SMALL_BYTES + 1)
    in_use = array_allocator.memory_usage().in_use
    del large
    assert array_allocator.memory_usage().in_use < in_use


def test_a_recent_owner_is_not_given_to_two_users() -> None:
    array_allocator.release_pool()

    def taken(_: int) -> None:
        for _round in range(200):
            held = [
                array_allocator.new_array(25, np.dtype("float32"))
                for _ in range(array_allocator.OWNERS_PER_SIZE + 2)
            ]
            for number, (array, _) in enumerate(held):
                array[:] = number
            assert [int(array[24]) for array, _ in held] == list(range(len(held)))

    in_threads(4, taken)


def test_the_number_of_recent_owners_is_limited() -> None:
    array_allocator.release_pool()
    for size in range(1, 5 * array_allocator.SMALL_SIZES):
        for _ in range(2 * array_allocator.OWNERS_PER_SIZE):
            array_allocator.allocate(size)
    assert len(array_allocator._recent_owners) <= array_allocator.SMALL_SIZES
    assert all(
        len(owners) <= array_allocator.OWNERS_PER_SIZE
        for owners in array_allocator._recent_owners.values()
    )
    kept = [array_allocator.allocate(7) for _ in range(3 * array_allocator.OWNERS_PER_SIZE)]
    assert len(array_allocator._recent_owners[7]) <= array_allocator.OWNERS_PER_SIZE
    assert len({address for _, address in kept}) == len(kept)


def test_arrays_for_users_do_not_dangle() -> None:
    @porism.jit
    def f(x: Any) -> Any:
        return x + 1

    kept = f(ones(100)).numpy()
    capsules = np.from_dlpack(f(ones(100)))
    for k in range(50):
        f(porism.full(100, float(k))).realize()
    assert (kept == 2).all()
    assert (capsules == 2).all()


def test_results_give_their_memory_back() -> None:
    @porism.jit
    def f(x: Any) -> Any:
        return x * 2

    x = ones(1 << 16)
    f(x)
    node_collector.sweep()
    before = porism.memory().in_use
    for _ in range(100):
        y = f(x)
    assert porism.memory().in_use - before <= array_allocator.size_class(4 << 16)
    del y
    assert porism.memory().in_use == before


@pytest.fixture
def no_collector() -> Iterator[None]:
    """Python's collector does not help: what goes, goes by reference counts."""
    gc.collect()
    gc.disable()
    yield
    gc.enable()


SIZE: Any = 1 << 20
"""Elements of the tensors below, in 4 MB."""


@pytest.mark.usefixtures("no_collector")
def test_a_loop_takes_no_more_memory_than_a_step() -> None:
    """A tensor that nobody has any more gives its memory back at once."""
    x = porism.asarray(np.zeros(SIZE, np.float32)) + 0
    x.realize()
    array_allocator.release_pool()
    before = porism.memory().in_use
    for _ in range(200):
        x = (x * 0.5 + 1).realize()
    found = porism.memory()
    assert found.peak - before <= 2 * 4 * SIZE
    assert found.in_use <= before
    np.testing.assert_allclose(x.numpy()[:3], 2, rtol=1e-6)


@pytest.mark.usefixtures("no_collector")
def test_what_is_computed_on_the_way_gives_its_memory_back() -> None:
    """Views, scalars and values that nobody asks for do not keep what they are made of."""
    x = ones(SIZE)
    array_allocator.release_pool()
    before = porism.memory().in_use
    for _ in range(50):
        y = x.reshape(1024, -1).reshape(-1) * 2
        scale = (y.realize().mean() * 0.5 + 0).realize()
        _unused = (y - scale).exp().sum() + y[3]
        x = (y * 0.5 / scale + 0 * y).realize()
    del y, scale, _unused
    assert porism.memory().in_use <= before
    assert porism.memory().peak - before <= 4 * 4 * SIZE
    assert x.numpy()[:2].tolist() == [1, 1]


@pytest.mark.usefixtures("no_collector")
def test_long_chains_go_without_recursion() -> None:
    x = ones(4)
    node = x
    for _ in range(100_000):
        node = node + 1
    count = node_collector.live_nodes()
    del node
    assert node_collector.live_nodes() <= count - 100_000


@pytest.mark.usefixtures("no_collector")
def test_values_that_are_still_needed_stay() -> None:
    x = ones(1000)
    later = (x + 1) * 3
    again = (x + 1) * 3
    assert later.node is again.node
    x = (x * 0).realize()
    del again
    for _ in range(10):
        (ones(1000) * 7).realize()
    assert later.numpy()[:2].tolist() == [6, 6]
    assert x.numpy()[:2].tolist() == [0, 0]


def test_the_pool_has_a_limit() -> None:
    array_allocator.release_pool()
    with settings.override(pool_megabytes=2):
        arrays = [array_allocator.new_array(1 << 20, np.dtype("uint8")) for _ in range(6)]
        peak = porism.memory()
        assert peak.peak >= 6 << 20
        assert peak.limit == 2 << 20
        del arrays
        assert 0 < porism.memory().pooled <= 2 << 20
    array_allocator.release_pool()
    assert porism.memory().pooled == 0
    assert "in use" in str(porism.memory())


def test_size_classes_are_large_enough_and_not_much_larger() -> None:
    for size in [0, 1, 127, 128, 129, 1000, 4096, 4097, 10**6, 10**9 + 1]:
        rounded = array_allocator.size_class(size)
        assert size <= rounded <= max(size * 1.25, size + array_allocator.ALIGNMENT)
        assert rounded % array_allocator.ALIGNMENT == 0


def test_too_much_memory_is_a_readable_error() -> None:
    with pytest.raises(array_allocator.OutOfMemory) as caught:
        array_allocator.allocate(1 << 62)
    assert isinstance(caught.value, MemoryError)
    assert "there is no memory for" in str(caught.value)
    assert "fix" in str(caught.value)
    assert array_allocator.new_array(3, np.dtype("int8"))[0].size == 3


def test_the_pool_in_threads() -> None:
    def work(k: int) -> None:
        held = []
        for j in range(300):
            array, _ = array_allocator.new_array(1 + (j * 37 + k) % 200, np.dtype("int32"))
            array[:] = k
            held.append(array)
            if len(held) > 20:
                gone = held.pop(j % 20)
                assert (gone == k).all()
        assert all((one == k).all() for one in held)

    in_threads(4, work)


def test_realize_of_several() -> None:
    x = porism.arange(4)
    tensors: Any = {"a": x + 1, "b": [x * 2, (x.sum(), 3)]}
    porism.realize(tensors, x)
    assert not any("lazy" in repr(t) for t in (x, tensors["a"], tensors["b"][0]))
    assert tensors["a"].tolist() == [1, 2, 3, 4]
    porism.realize()
