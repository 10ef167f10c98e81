"""Arrays on the memory of tensors: read-only, kept alive, and never overwritten."""

from __future__ import annotations

import gc
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import porism
from porism.base.settings import settings
from porism.engine.run.buffer_storage import node_storage
from porism.tensor.memory.shared_memory import NotShared
from porism.tensor.promotion import ELEMENT_TYPES
from tests.tensor.oracle import refuses


def address(x: Any) -> int:
    """Return the address of the values of an array or a realized tensor."""
    if isinstance(x, porism.Tensor):
        return node_storage(x._node)[1]
    return int(x.__array_interface__["data"][0])


SHAPES: tuple[tuple[int, ...], ...] = (
    (),
    (1,),
    (7,),
    (2, 3),
    (0,),
    (3, 0, 2),
    (1, 5, 1),
    (2, 3, 4),
)


@pytest.mark.parametrize("name", [n for n, t in ELEMENT_TYPES.items() if t.kind != "c"])
def test_every_type_and_shape_is_shared(name: str) -> None:
    for shape in SHAPES:
        x = porism.asarray(np.ones(shape, "u1")).astype(name).realize()
        for array in (x.numpy(), np.asarray(x), np.asarray(x, copy=False)):
            assert array.shape == shape
            assert array.dtype == x.dtype
            assert address(array) == address(x)
            assert (array.astype(np.float64) == 1).all()
            with pytest.raises(ValueError, match="read-only"):
                array[...] = 0


def test_no_flag_makes_it_writable() -> None:
    for name in ("float32", "bfloat16"):
        array = porism.ones(3, dtype=name).numpy()
        for view in (array, array[1:], array.reshape(3, 1), array.view("u1")):
            with pytest.raises(ValueError, match="WRITEABLE"):
                view.flags.writeable = True


def test_an_array_keeps_its_values_when_the_tensor_changes() -> None:
    x = (porism.arange(1000) * 2).realize()
    array, part = x.numpy(), x.numpy()[10:20]
    before = array.copy()
    x[5:50] = -1
    assert x.numpy()[10] == -1
    x[0] = -2
    x += 1
    np.testing.assert_array_equal(array, before)
    np.testing.assert_array_equal(part, before[10:20])


@pytest.mark.usefixtures("frozen_heap")
def test_an_array_outlives_its_tensor() -> None:
    arrays = []
    for k in range(40):
        x = (porism.arange(500) + k).realize()
        arrays.append(x.numpy()[::2])
        del x
        (porism.zeros(500, dtype="int64") - k).realize()  # would reuse the memory
    gc.collect()
    for k, array in enumerate(arrays):
        np.testing.assert_array_equal(array, np.arange(0, 500, 2) + k)


@pytest.mark.usefixtures("frozen_heap")
def test_memory_is_reused_when_the_array_is_gone() -> None:
    gc.collect()
    before = porism.memory().in_use
    with settings.override(verify=0):  # which remembers what it has verified for a while
        x = (porism.ones(1 << 18) * 3).realize()
    array = x.numpy()
    del x
    gc.collect()
    assert porism.memory().in_use - before > 1 << 19
    assert array[7] == 3
    del array
    gc.collect()
    assert porism.memory().in_use - before < 1 << 19


def test_an_assignment_is_in_place_again_when_the_array_is_gone() -> None:
    x = (porism.arange(100) * 2).realize()
    first = address(x)
    array = x.numpy()
    x[0] = 5
    assert address(x.realize()) != first
    assert array[0] == 0
    del array
    second = address(x)
    x[1] = 6
    assert address(x) == second
    assert x.tolist()[:3] == [5, 6, 4]


def test_symbolic_sizes() -> None:
    n = porism.Variable("n", 1, 8)
    part = (porism.arange(8) * 3)[: n.bind(5)]
    array = part.numpy()
    assert array.tolist() == [0, 3, 6, 9, 12]
    assert not array.flags.writeable


def test_copies_may_be_written_to() -> None:
    x = (porism.arange(4) * 2).realize()
    for array in (np.array(x), np.asarray(x, copy=True), np.asarray(x, dtype=np.float32)):
        array[0] = 9
        assert x.tolist() == [0, 2, 4, 6]
    assert np.asarray(x, dtype=x.dtype).dtype == np.int64
    assert address(np.asarray(x, dtype=np.int64)) == address(x)
    assert np.asarray(x, dtype=ml_dtypes.bfloat16).dtype == ml_dtypes.bfloat16
    with refuses(NotShared, "an array of float32 on the memory of a tensor of int64"):
        np.asarray(x, dtype=np.float32, copy=False)
    with pytest.raises(ValueError, match="its type would change"):
        np.array(x, dtype=np.float32, copy=False)


def test_results_of_jitted_functions() -> None:
    state = porism.zeros(300)

    @porism.jit
    def step(x: Any) -> Any:
        state.assign(state + x)
        return state * 2

    seen = []
    for k in range(6):
        result = step(porism.ones(300) * k)
        seen.append((state.numpy(), result.numpy()))
    for k, (total, doubled) in enumerate(seen):
        assert (total == k * (k + 1) / 2).all()
        assert (doubled == k * (k + 1)).all()


def test_numpy_saves_and_sorts_what_it_is_given(tmp_path: Any) -> None:
    x = porism.asarray([3.0, 1.0, 2.0])
    np.save(tmp_path / "x.npy", np.asarray(x))
    assert np.load(tmp_path / "x.npy").tolist() == [3.0, 1.0, 2.0]
    assert np.sort(x).tolist() == [1.0, 2.0, 3.0]
    assert bytes(memoryview(x.numpy())) == np.array([3, 1, 2], "f4").tobytes()
