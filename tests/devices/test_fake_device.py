"""A device with memory of its own: everything works on its tensors, and the host never touches it.

What the host must not do ends the process, so a test that passes shows that nothing did it.
"""

from __future__ import annotations

import copy
import gc
import os
import pickle
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import porism
from porism.base.errors import PorismError, TypeMismatch
from porism.base.settings import settings
from porism.engine.device.device import DeviceArray, DeviceError, HostAccess
from porism.engine.device.device_table import find_device
from porism.engine.device.fake_device import FakeDevice
from porism.engine.run.array_allocator import OutOfMemory
from porism.engine.run.buffer_storage import array_of
from porism.tensor.tensor import Tensor

DATA = np.arange(12, dtype=np.float32).reshape(3, 4)


def on_fake(array: Any = DATA) -> Tensor:
    return porism.asarray(array, device="fake")


def test_values_go_to_the_device_and_come_back() -> None:
    x = on_fake()
    assert x.device == "fake"
    assert isinstance(array_of(x.node), DeviceArray)
    np.testing.assert_array_equal(x.numpy(), DATA)
    assert not x.numpy().flags.writeable
    assert x.to("cpu").device == "cpu"
    assert x.to("cpu").tolist() == DATA.tolist()
    assert repr(x).startswith("Tensor([[ 0.")


def test_results_stay_where_they_were_computed() -> None:
    x = on_fake()
    for y in (x + 1, x @ x.T, x.sum(0), x[1:], x.softmax(), porism.sort(x), x.to("int32")):
        assert y.device == "fake"
        assert y.realize().device == "fake"
        assert isinstance(array_of(y.node), DeviceArray)
    np.testing.assert_allclose((x @ x.T).numpy(), DATA @ DATA.T)


def test_operands_on_two_devices_are_an_error_at_the_line() -> None:
    x, y = on_fake(), porism.asarray(DATA)
    with pytest.raises(TypeMismatch) as error:
        x + y
    text = str(error.value)
    assert "float32 (3, 4) on 'fake', and float32 (3, 4) on 'cpu'" in text
    assert "test_fake_device.py, line" in text
    assert 'y.to("fake")' in text
    wrong: dict[str, Callable[[], Tensor]] = {
        "where": lambda: porism.where(x > 0, x, y),
        "concat": lambda: porism.concat([x, y]),
        "matmul": lambda: x @ y.T,
        "index": lambda: x[porism.asarray([0])],
        "second fake device": lambda: x.to("fake:1") + x,
    }
    for name, compute in wrong.items():
        with pytest.raises(PorismError, match="two devices"):
            print(name, compute())


@pytest.mark.parametrize("is_computed", [False, True])
def test_values_on_no_device_go_along_whether_computed_or_not(is_computed: bool) -> None:
    """A value that is computed from indices must not be bound to a device by being printed."""
    x, row = on_fake(), porism.arange(4.0)
    if is_computed:
        assert row.tolist() == [0, 1, 2, 3]
    assert row.device == "cpu"
    y = x + row
    assert y.device == "fake"
    np.testing.assert_array_equal(y.numpy(), DATA + np.arange(4))
    for operand in ([1.0, 2, 3, 4], np.ones(4, np.float32), 2.5):
        z = operand + x if isinstance(operand, float) else x + operand
        assert z.device == "fake"
        np.testing.assert_array_equal(z.numpy(), DATA + np.asarray(operand, np.float32))


def test_values_on_no_device_are_not_kept_for_ever() -> None:
    """The table of origins refers to what refers to its key: both would live for ever."""
    find_device("fake")
    gc.collect()
    before = porism.memory().in_use
    for k in range(4):
        (porism.arange((1 << 16) + k) * 5).realize()
    gc.collect()
    assert porism.memory().in_use - before < 1 << 19


def test_a_value_of_an_operand_that_may_move_and_one_that_may_not_is_moved() -> None:
    """Only the list may be moved by itself: the sum is on the processor, and is copied."""
    x = porism.add(on_fake().to("cpu"), [1.0, 2, 3, 4])
    assert x.device == "cpu"
    y = x.to("fake:1")
    assert y.device == "fake:1"
    np.testing.assert_array_equal(y.numpy(), DATA + np.arange(1, 5))


def test_creation_on_a_device() -> None:
    for x in (
        porism.zeros(3, device="fake"), porism.ones((2,), device="fake"),
        porism.full((2,), 7, device="fake"), porism.arange(4, device="fake"),
        porism.linspace(0, 1, 5, device="fake"), porism.eye(3, device="fake"),
        porism.zeros_like(on_fake()), porism.rand(3, device="fake"),
        porism.randn(3, device="fake"), porism.randint(5, shape=(3,), device="fake"),
        porism.permutation(5, device="fake"), porism.normal(shape=(2,), device="fake"),
        porism.uniform(shape=(2,), device="fake"), porism.fft.fftfreq(4, device="fake"),
        porism.asarray([1j, 2.0], device="fake"), porism.asarray(3.0, device="fake"),
        porism.asarray(porism.ones(2), device="fake"), porism.ones(2).to_device("fake"),
        porism.astype(porism.ones(2), "int32", device="fake"),
        porism.from_dlpack(np.ones(2), device="fake"),
    ):  # fmt: skip
        assert x.device == "fake"
        assert x.realize().device == "fake"
        assert (x + 1).device == "fake"
        x.numpy()


def test_the_default_device() -> None:
    with settings.override(device="fake"):
        x = porism.asarray([1.0, 2.0])
        assert x.device == "fake"
        assert porism.zeros(3).realize().device == "fake"
        assert porism.rand(3).realize().device == "fake"
        assert porism.zeros(3, device="cpu").realize().device == "cpu"
        assert porism.__array_namespace_info__().default_device() == "fake"
    assert porism.zeros(3).realize().device == "cpu"
    assert (x + 1).device == "fake"


def test_indexing_and_assignment() -> None:
    x, expected = on_fake(), DATA.copy()
    np.testing.assert_array_equal(x[[2, 0]].numpy(), DATA[[2, 0]])
    np.testing.assert_array_equal(x[x > 5].numpy(), DATA[DATA > 5])
    assert x[x > 5].device == "fake"
    assert porism.nonzero(x)[0].device == "fake"
    before = x + 0
    x[1:, ::2] = 7
    x[0, 1] = -1.0
    x[2] = [1, 2, 3, 4]
    x[x == 7] = 8
    expected[1:, ::2], expected[0, 1], expected[2] = 7, -1, [1, 2, 3, 4]
    expected[expected == 7] = 8
    assert x.device == "fake"
    np.testing.assert_array_equal(x.numpy(), expected)
    np.testing.assert_array_equal(before.numpy(), DATA)
    x[...] = 0
    assert x.device == "fake"
    assert x.realize().device == "fake"
    with pytest.raises(PorismError, match="two devices"):
        x[0] = porism.asarray([1.0, 2, 3, 4])


def test_values_that_the_host_computes_return_to_the_device() -> None:
    square = on_fake([[2.0, 1.0], [1.0, 3.0]])
    inverse = porism.linalg.inv(square)
    assert inverse.device == "fake"
    np.testing.assert_allclose((inverse @ square).numpy(), np.eye(2), atol=1e-6)
    values = porism.unique_values(on_fake([3, 1, 3]))
    assert values.device == "fake"
    assert values.tolist() == [1, 3]


def test_symbolic_sizes() -> None:
    x, n = on_fake(), porism.Variable("n", 1, 3)
    for value in (1, 3, 2):
        part = x[: n.bind(value)]
        np.testing.assert_array_equal((part * 2).sum(0).numpy(), DATA[:value].sum(0) * 2)


def test_random_numbers_are_those_of_the_processor() -> None:
    porism.seed(3)
    host = [porism.rand(5).numpy(), porism.randn(5).numpy()]
    porism.seed(3)
    device = [porism.rand(5, device="fake").numpy(), porism.randn(5, device="fake").numpy()]
    np.testing.assert_array_equal(host, device)
    assert porism.dropout(on_fake()).device == "fake"
    assert porism.shuffle(on_fake()).device == "fake"
    assert porism.multinomial(on_fake([[0.0, 1.0]]), 1).device == "fake"


# -- jit -------------------------------------------------------------------------------------------


def test_a_jitted_function_runs_where_its_arguments_are() -> None:
    @porism.jit
    def f(a: Tensor, b: Tensor) -> Tensor:
        return (a * b + porism.arange(4.0)).sum(1)

    expected = (DATA * DATA + np.arange(4)).sum(1)
    for device in ("fake", "cpu", "fake:1", "fake", "fake"):
        x = porism.asarray(DATA, device=device)
        for _ in range(3):  # the fast path too
            result = f(x, x + 0)
            assert result.device == device
            np.testing.assert_allclose(result.numpy(), expected)
    assert f.traces == 3
    with pytest.raises(PorismError, match="two devices"):
        f(on_fake(), porism.asarray(DATA))


def test_the_fast_path_looks_at_devices() -> None:
    """A trace of the processor was taken before another device is named: its check knows none."""
    f = porism.jit(lambda a: a * 2)
    host = porism.asarray(DATA)
    f(host), f(host)
    assert f(on_fake()).device == "fake"
    assert f(host).device == "cpu"
    np.testing.assert_array_equal(f(on_fake()).numpy(), DATA * 2)


def test_a_jitted_function_on_several_devices() -> None:
    weight = on_fake(DATA.T)

    @porism.jit
    def f(a: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        there = (a * 2).to("fake") @ weight
        back = there.to("cpu") + a.sum()
        return back, there, back.to("fake:1")

    for shift in (0, 1, 2):
        a = porism.asarray(DATA + shift)
        back, there, other = f(a)
        assert (back.device, there.device, other.device) == ("cpu", "fake", "fake:1")
        product = ((DATA + shift) * 2) @ DATA.T
        np.testing.assert_allclose(there.numpy(), product)
        np.testing.assert_allclose(back.numpy(), product + (DATA + shift).sum(), rtol=1e-6)
        np.testing.assert_array_equal(other.numpy(), back.numpy())
    assert f.traces == 1


def test_lists_are_moved_once_to_the_device_of_a_jitted_function() -> None:
    device = find_device("fake")

    @porism.jit
    def f(a: Tensor) -> Tensor:
        return a[[2, 0]] + np.full(4, 3, np.float32)

    f(on_fake()).numpy()
    x = on_fake()
    device.memory_usage()
    writes: list[int] = []
    write = device.write

    def counted(address: int, array: Any) -> None:
        writes.append(address)
        write(address, array)

    device.write = counted  # type: ignore[method-assign]
    try:
        result = f(x)
    finally:
        del device.write
    assert writes == []
    np.testing.assert_array_equal(result.numpy(), DATA[[2, 0]] + 3)


def test_arguments_on_no_device_are_traced_once() -> None:
    """The first call has them on no device, and the later ones have their results."""
    state = porism.zeros(3, 4)

    @porism.jit
    def f(a: Tensor) -> Tensor:
        state.assign(state + a)
        return a + 1

    on_fake()
    x = porism.ones(3, 4)
    for _ in range(3):
        x = f(x)
    assert f.traces == 1
    assert (x.device, state.device) == ("cpu", "cpu")
    np.testing.assert_array_equal(state.numpy(), 6)


def test_an_argument_elsewhere_than_what_is_captured_is_refused() -> None:
    weight = on_fake()
    f = porism.jit(lambda a: a + weight)
    np.testing.assert_array_equal(f(DATA).numpy(), DATA * 2)  # an array goes along
    np.testing.assert_array_equal(f(porism.ones(3, 4)).numpy(), DATA + 1)
    with pytest.raises(PorismError, match="on 'cpu', and it computes on 'fake'") as error:
        f(porism.asarray(DATA))
    assert "test_fake_device.py, line" in str(error.value)
    np.testing.assert_array_equal(f(on_fake()).numpy(), DATA * 2)


def test_captured_tensors_that_move_are_traced_again() -> None:
    weight = porism.asarray(DATA)
    f = porism.jit(lambda a: a + weight)
    f(porism.asarray(DATA))
    weight.node = weight.to("fake").node
    with pytest.raises(PorismError, match="two devices"):
        f(porism.asarray(DATA))
    assert f(on_fake()).device == "fake"


@pytest.mark.parametrize("device", ["cpu", "fake"])
def test_a_jitted_function_that_only_moves(device: str) -> None:
    """What is moved to where it is already has a kernel of its own: a result is no argument."""
    f = porism.jit(lambda a: (a.to(device), a.to(device) + 1))
    on_fake()
    for shift in (0, 1):
        array = DATA + shift
        same, more = f(array)
        assert same.device == more.device == device
        np.testing.assert_array_equal(same.numpy(), array)
        np.testing.assert_array_equal(more.numpy(), array + 1)


def test_results_of_a_jitted_function_are_each_on_their_device() -> None:
    f = porism.jit(lambda a: (a, a.to("cpu"), porism.arange(3), porism.zeros(2, device="fake")))
    for shift in (0, 1):
        results = f(on_fake(DATA + shift))
        assert [x.device for x in results] == ["fake", "cpu", "cpu", "fake"]
        np.testing.assert_array_equal(results[0].numpy(), DATA + shift)
        np.testing.assert_array_equal(results[1].numpy(), DATA + shift)


def test_threads_call_a_jitted_function() -> None:
    f = porism.jit(lambda a, b: (a @ b.T).sum(1))
    faults: list[Exception] = []

    def work(shift: int) -> None:
        array = DATA + shift
        try:
            for _ in range(10):
                x = on_fake(array)
                np.testing.assert_allclose(f(x, x).numpy(), (array @ array.T).sum(1))
        except Exception as error:  # asserted below, in the main thread
            faults.append(error)

    threads = [threading.Thread(target=work, args=(k,)) for k in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not faults


@pytest.mark.parametrize("how", [{"backend": "reference"}, {"beam": 1}, {"verify": 1}])
def test_other_ways_to_run(how: dict[str, Any]) -> None:
    with settings.override(**how):
        x = on_fake()
        np.testing.assert_allclose(((x @ x.T) * 53).numpy(), DATA @ DATA.T * 53)
        np.testing.assert_array_equal(porism.jit(lambda a: a * 59)(x).numpy(), DATA * 59)


def test_state_is_overwritten_on_the_device() -> None:
    device = find_device("fake")
    state = on_fake(np.zeros((64, 64), np.float32))

    @porism.jit
    def step(a: Tensor) -> None:
        state.assign(state + a)

    one = on_fake(np.ones((64, 64), np.float32))
    step(one), step(one)
    gc.collect()
    address = array_of(state.node).address  # type: ignore[attr-defined]
    before = porism.memory("fake").in_use
    for _ in range(3):
        step(one)
    assert array_of(state.node).address == address  # type: ignore[attr-defined]
    assert device.memory_usage().in_use == before
    np.testing.assert_array_equal(state.numpy(), 5)


def test_random_numbers_in_a_jitted_function() -> None:
    f = porism.jit(lambda a: a + porism.rand(3, 4, device="fake"))
    x = on_fake()
    first, second = f(x), f(x)
    assert first.device == "fake"
    assert not np.array_equal(first.numpy(), second.numpy())


# -- gradients, modules, files ---------------------------------------------------------------------


def test_gradients_go_back_to_the_device_of_the_tensor() -> None:
    w = on_fake(DATA)
    w.requires_grad = True
    ((w * 2).to("cpu").sum() * 3).backward()
    assert w.grad is not None
    assert w.grad.device == "fake"
    np.testing.assert_array_equal(w.grad.numpy(), np.full_like(DATA, 6))
    gradient = porism.grad(lambda a: (a.to("fake:1") ** 2).sum().to("fake"))(on_fake())
    assert gradient.device == "fake"
    np.testing.assert_array_equal(gradient.numpy(), 2 * DATA)


@pytest.mark.parametrize("is_jitted", [False, True])
def test_training_gives_the_same_losses_as_on_the_processor(is_jitted: bool) -> None:
    def losses(device: str) -> list[float]:
        porism.seed(5)
        layers = [porism.nn.Linear(4, 8), porism.nn.ReLU(), porism.nn.Linear(8, 1)]
        model = porism.nn.Sequential(*layers).to(device)
        optimizer = porism.optim.Adam(list(model.parameters()), lr=0.05)
        x, t = (porism.asarray(a, device=device) for a in (DATA / 12, DATA[:, :1]))

        def step(x: Tensor, t: Tensor) -> Tensor:
            loss: Tensor = ((model(x) - t) ** 2).mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            return loss

        run: Callable[[Tensor, Tensor], Tensor] = porism.jit(step) if is_jitted else step
        found = [run(x, t).item() for _ in range(4)]
        assert {p.device for p in model.parameters()} == {device}
        assert {t.device for t in optimizer.state_dict().values()} == {device}
        return found

    np.testing.assert_allclose(losses("fake"), losses("cpu"), rtol=1e-5)


def test_modules_are_saved_and_loaded(tmp_path: Path) -> None:
    model = porism.nn.Linear(4, 3).to("fake")
    path = tmp_path / "weights.safetensors"
    porism.save(model.state_dict(), path)
    other = porism.nn.Linear(4, 3).to("fake", "float64")
    assert other.weight.dtype == porism.float64
    other.load_state_dict(porism.load(path))
    assert {p.device for p in other.parameters()} == {"fake"}
    np.testing.assert_allclose(other(on_fake()).numpy(), model(on_fake()).numpy(), rtol=1e-6)


def test_copies_and_pickles() -> None:
    x = on_fake()
    assert copy.deepcopy(x).device == "fake"
    again = pickle.loads(pickle.dumps(x))
    assert again.device == "cpu"
    np.testing.assert_array_equal(again.numpy(), DATA)


def test_complex_tensors() -> None:
    z = on_fake(DATA) * 1j + on_fake(DATA)
    assert z.device == "fake"
    assert z.to("cpu").device == "cpu"
    assert porism.fft.fft(on_fake()).device == "fake"
    np.testing.assert_allclose(porism.fft.fft(on_fake()).numpy(), np.fft.fft(DATA), rtol=1e-5)


def test_profile_and_explain(capsys: pytest.CaptureFixture[str]) -> None:
    x = on_fake()
    porism.explain(x * 17)
    assert "kernel 0" in capsys.readouterr().out
    with porism.profile() as found:
        (x * 19).realize()
    assert "1 runs of 1 kernels" in str(found)


# -- the device itself -----------------------------------------------------------------------------


def test_device_memory_is_no_array() -> None:
    with pytest.raises(HostAccess, match="cannot read it"):
        np.asarray(array_of(on_fake().node))


def test_a_touch_of_the_host_ends_the_process() -> None:
    """The guard must guard: otherwise all tests here pass with code that reads device memory."""
    code = (
        "import ctypes, porism; from porism.engine.run.buffer_storage import array_of\n"
        "x = porism.asarray([1.0], device='fake'); print('here', flush=True)\n"
        "ctypes.string_at(array_of(x.node).address, 4); print('there')"
    )
    run = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False,
        env={**os.environ, "PORISM_CACHE": "0"},
    )  # fmt: skip
    assert run.stdout == "here\n"
    assert run.returncode < 0


def test_a_write_beyond_an_allocation_is_found() -> None:
    device = FakeDevice("fake", 0, 1 << 20)
    array, address = device.allocate(10, np.dtype(np.float32))
    device.write(address + 40, np.zeros(1, np.float32))
    del array
    with pytest.raises(DeviceError, match="beyond an allocation of 40 bytes"):
        device.reclaim()


def test_memory_is_freed_and_used_again() -> None:
    device = FakeDevice("fake", 0, 1 << 20)
    first = device.store(np.ones(100, np.float32))
    address = first[1]
    del first
    second = device.allocate(100, np.dtype(np.float32))
    assert second[1] == address
    assert device.memory_usage().in_use == 400
    assert not (second[0].to_host() == 1).any()


def test_out_of_memory_says_what_holds_it() -> None:
    device = FakeDevice("fake", 0, 1 << 20)
    held = device.allocate(200_000, np.dtype(np.float32))
    with pytest.raises(OutOfMemory) as error:
        device.allocate(100_000, np.dtype(np.float32))
    assert "'fake' has no memory for 0.4 MB" in str(error.value)
    assert "0.8 MB: 200000 × float32" in str(error.value)
    del held
    device.allocate(100_000, np.dtype(np.float32))


@pytest.mark.parametrize("name", ["gpu", "fake:x", "cpu:1", "cuda:-1", ""])
def test_unknown_devices_are_refused(name: str) -> None:
    with pytest.raises(TypeMismatch, match="the device") as error:
        porism.zeros(2, device=name)
    assert "porism.devices()" in str(error.value)
