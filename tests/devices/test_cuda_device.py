"""CUDA through a pretended driver: what Porism asks of the driver, and what it says of failures.

The driver's work is done on memory that the host may not touch, by kernels for the processor. What
a GPU does with PTX, streams and graphs is not tested here.
"""

from __future__ import annotations

import os
from typing import Any

import numpy as np
import pytest

import porism
from porism.backends.llvm.host_target import host_target
from porism.doctor import machine_report, self_test
from porism.engine.cuda import cuda_driver
from porism.engine.cuda.cuda_device import CudaDevice
from porism.engine.cuda.cuda_driver import start_driver
from porism.engine.device import device_table
from porism.engine.device.device import DeviceError
from porism.engine.run import program
from porism.engine.run.array_allocator import OutOfMemory
from tests.devices.pretended_driver import Bindings

DATA = np.arange(12, dtype=np.float32).reshape(3, 4)


@pytest.fixture
def bindings(monkeypatch: pytest.MonkeyPatch) -> Bindings:
    """A pretended driver with a GPU "cuda"."""
    made = Bindings()
    driver = start_driver(made)
    device = CudaDevice("cuda", 0, driver, target=host_target(), compile_ptx=made.compile_ptx)
    monkeypatch.setattr(cuda_driver, "driver", lambda: driver)
    monkeypatch.setitem(device_table._devices, "cuda", device)
    monkeypatch.setattr(program, "_functions", {})  # those of another driver are not its own
    return made


def device() -> Any:
    return device_table.find_device("cuda")


def test_programs_run_on_the_gpu(bindings: Bindings) -> None:
    x = porism.asarray(DATA, device="cuda")
    y = (x @ x.T + porism.arange(3)).softmax()
    assert y.device == "cuda"
    logits = DATA @ DATA.T + np.arange(3)
    exact = np.exp(logits - logits.max(1, keepdims=True))
    np.testing.assert_allclose(y.numpy(), exact / exact.sum(1, keepdims=True), atol=1e-6)
    assert bindings.calls["cuLaunchKernel"] + bindings.calls["cuGraphLaunch"] >= 1
    assert x.to("cpu").device == "cpu"
    assert porism.devices() == ("cpu", "cuda")


def jitted_chain() -> Any:
    """A jitted function of several kernels, of which only the first reads its argument."""
    weight = porism.asarray(np.eye(64, dtype=np.float32) * 2, device="cuda")

    @porism.jit
    def f(a: Any) -> Any:
        first = porism.sort(a @ weight, 1)
        second = porism.sort(first @ weight, 0)
        return second @ weight

    return f


def test_a_jitted_call_is_one_graph_that_is_changed_where_it_must_be(bindings: Bindings) -> None:
    f = jitted_chain()
    inputs = [porism.asarray(np.full((64, 64), k, np.float32), device="cuda") for k in range(3)]
    f(inputs[0])
    nodes = bindings.calls["cuGraphAddKernelNode"]
    assert nodes > 1
    assert bindings.calls["cuGraphInstantiate"] == 1
    before = bindings.calls.copy()
    results = [f(x) for x in inputs]
    calls = bindings.calls - before
    assert calls["cuGraphLaunch"] == 3
    assert calls["cuGraphAddKernelNode"] == calls["cuLaunchKernel"] == 0
    assert calls["cuGraphExecKernelNodeSetParams"] < 3 * nodes
    for k, result in enumerate(results):
        np.testing.assert_allclose(result.numpy(), np.full((64, 64), 8.0 * k))


def test_kernels_wait_for_what_their_steps_wait_for(bindings: Bindings) -> None:
    """The pretended graph refuses a node that waits for one that is not in it."""
    f = jitted_chain()
    x = porism.asarray(np.ones((64, 64), np.float32), device="cuda")
    np.testing.assert_allclose(f(x).numpy(), 8)
    with porism.profile() as found:  # one by one
        np.testing.assert_allclose(f(x).numpy(), 8)
    assert "kernels took" in str(found)


def test_symbolic_sizes_change_arguments(bindings: Bindings) -> None:
    x, n = porism.asarray(DATA, device="cuda"), porism.Variable("n", 1, 3)
    for value in (2, 3, 1):
        part = x[: n.bind(value)]
        np.testing.assert_array_equal((part + 1).sum(0).numpy(), (DATA[:value] + 1).sum(0))


def test_memory_returns_to_the_pool(bindings: Bindings) -> None:
    x = porism.asarray(DATA, device="cuda")
    used = device().memory_usage().in_use
    for _ in range(5):
        (x * 3).realize()
    assert device().memory_usage().in_use == used
    assert bindings.calls["cuMemFreeAsync"] >= 5
    assert bindings.calls["cuMemPoolSetAttribute"] == 1


def test_large_copies_go_through_pinned_memory_in_parts(bindings: Bindings) -> None:
    values = np.arange(3_000_001, dtype=np.float32)
    x = porism.asarray(values, device="cuda")
    np.testing.assert_array_equal(x.numpy(), values)
    assert bindings.calls["cuMemHostAlloc"] == 2
    assert bindings.calls["cuMemcpyHtoDAsync"] == 3
    assert bindings.calls["cuMemcpyDtoHAsync"] == 3


def test_out_of_memory_says_what_holds_it(bindings: Bindings) -> None:
    held = porism.asarray(np.zeros(12_000_000, np.float32), device="cuda")
    with pytest.raises(OutOfMemory) as error:
        porism.asarray(np.zeros(9_000_000, np.float32), device="cuda")
    assert "the device 'cuda' has no memory for 34.3 MB" in str(error.value)
    assert "45.8 MB: 12000000 × float32" in str(error.value)
    assert bindings.calls["cuMemPoolTrimTo"] == 1
    del held
    assert porism.asarray(np.zeros(9_000_000, np.float32), device="cuda").device == "cuda"


def test_a_fault_names_the_kernel_and_the_line(bindings: Bindings) -> None:
    x = porism.asarray(DATA, device="cuda")
    y = (x * 23).sum(1).realize()
    bindings.failing["cuStreamSynchronize"] = 700
    with pytest.raises(DeviceError) as error:
        y.numpy()
    text = str(error.value)
    assert "has faulted on 'cuda'" in text
    assert "CUDA_ERROR_ILLEGAL_ADDRESS" in text
    assert "test_cuda_device.py, line" in text
    del bindings.failing["cuStreamSynchronize"]
    with pytest.raises(DeviceError, match="cannot be used any more"):
        (x + 1).realize()
    assert (porism.asarray(DATA) + 1).tolist() == (DATA + 1).tolist()  # the processor goes on


def test_a_kernel_that_cannot_be_assembled(bindings: Bindings) -> None:
    x = porism.asarray(DATA, device="cuda")
    bindings.failing["cuLinkAddData"] = 1
    with pytest.raises(DeviceError, match="cannot assemble a kernel"):
        (x * 29).realize()
    del bindings.failing["cuLinkAddData"]
    np.testing.assert_array_equal((x * 29).numpy(), DATA * 29)
    assert bindings.calls["cuLinkDestroy"] >= 2


def test_the_stream_waits_for_other_libraries(bindings: Bindings) -> None:
    device().wait_for(7)
    x = porism.asarray(DATA, device="cuda")
    assert x.__dlpack_device__() == (2, 0)
    x.__dlpack__(stream=7, max_version=(1, 0))
    assert bindings.calls["cuStreamWaitEvent"] == 2
    x.__dlpack__(stream=-1, max_version=(1, 0))
    assert bindings.calls["cuStreamWaitEvent"] == 2


def test_time_is_that_of_events(bindings: Bindings) -> None:
    x = porism.asarray(DATA, device="cuda")
    (x * 31).realize()
    launches = device()._launched[-1]
    assert device().time(launches, 0) == pytest.approx(0.25e-3)


def test_a_description(bindings: Bindings) -> None:
    found = device().describe()
    assert found["name"] == "Pretended GPU"
    assert found["compute capability"] == "9.0"
    assert found["driver"] == "CUDA 13.0"


# -- machines on which there is nothing to use -----------------------------------------------------


class NoDriver(Bindings):
    """The package without a driver, which raises an error of its own."""

    def cuInit(self, _flags: int) -> Any:  # noqa: N802 - the driver's name
        raise RuntimeError("libcuda.so.1 was not found")


def why(bindings: Any) -> str:
    with pytest.raises(DeviceError) as error:
        start_driver(bindings)
    return str(error.value)


def test_no_driver() -> None:
    text = why(NoDriver())
    assert "there is no NVIDIA driver on this machine" in text
    assert "libcuda.so.1 was not found" in text
    assert "install the driver" in text


def test_an_old_driver() -> None:
    text = why(Bindings(version=11040))
    assert "too old: it supports CUDA 11.4" in text
    assert "update the driver" in text


def test_no_device(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    made = Bindings()
    made.failing["cuInit"] = 100
    assert "the driver finds no GPU" in why(made)


def test_a_hidden_device(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    made = Bindings()
    made.failing["cuInit"] = 100
    text = why(made)
    assert "CUDA_VISIBLE_DEVICES is '', which hides the GPUs" in text
    assert "unset CUDA_VISIBLE_DEVICES" in text


def test_an_old_package() -> None:
    class Old:
        pass

    assert "cuda-bindings is too old" in why(Old())


def test_a_number_that_there_is_not(bindings: Bindings) -> None:
    with pytest.raises(DeviceError, match="there is no device 'cuda:3'") as error:
        porism.zeros(2, device="cuda:3")
    assert "the driver has 1 GPUs: 'cuda'" in str(error.value)


def test_a_forked_process(bindings: Bindings) -> None:
    x = porism.asarray(DATA, device="cuda").realize()
    child = os.fork()
    if not child:
        try:
            x.numpy()
        except DeviceError as error:
            os._exit(0 if "forked process" in str(error) else 1)
        os._exit(2)
    assert os.waitpid(child, 0)[1] == 0
    np.testing.assert_array_equal(x.numpy(), DATA)


def test_without_the_package_the_error_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def missing(_name: str) -> Any:
        raise ImportError("No module named 'cuda'")

    monkeypatch.setattr(cuda_driver, "import_module", missing)
    cuda_driver.driver.cache_clear()
    with pytest.raises(DeviceError, match="needs the package cuda-bindings") as error:
        porism.zeros(2, device="cuda")
    assert "porism[cuda]" in str(error.value)
    assert porism.devices() == ("cpu",)


def test_the_doctor_tests_the_gpu(bindings: Bindings) -> None:
    results = list(self_test.run(60.0, ["cuda"]))
    assert [result.text for result in results] == [""] * len(self_test.programs())
    assert bindings.calls["cuMemcpyDtoHAsync"] >= len(results)
    assert machine_report.devices()["cuda"]["name"] == "Pretended GPU"


def test_the_doctor_says_why_there_is_no_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    made = Bindings(version=11040)
    monkeypatch.setattr(cuda_driver, "driver", lambda: start_driver(made))
    assert "not there: the NVIDIA driver is too old" in machine_report.devices()["cuda"]
