"""CUDA launches: the kernels of a program as one CUDA graph, whose arguments change in place.

A kernel is a node of the graph, and waits for those that its step waits for. The arguments of all
kernels are words of host memory, which the driver copies when a node is made or changed: a run
changes the nodes of which a word has changed, and launches the graph. A program of one kernel is
launched without a graph.
"""

from __future__ import annotations

import bisect
import ctypes
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from porism.backends.kernel_function import KernelFunction
from porism.base.user_frames import users_line
from porism.engine.cuda.cuda_code import CudaModule
from porism.engine.device.device import Launches
from porism.engine.run.argument_block import ArgumentLayout
from porism.rules.addresses.launch_dims import Launch
from porism.schedule.schedule import Schedule

if TYPE_CHECKING:
    from porism.engine.cuda.cuda_device import CudaDevice


class CudaLaunches(Launches):
    """The kernels of a program on a GPU."""

    def __init__(
        self,
        device: CudaDevice,
        schedule: Schedule,
        layout: ArgumentLayout,
        functions: Sequence[KernelFunction],
    ) -> None:
        self.device = device
        self.schedule = schedule
        self.begins = layout.begins
        self.kernels = [_kernel_of(function) for function in functions]
        count = max(layout.word_count, 1)
        self.words = (ctypes.c_int64 * count)()
        start = ctypes.addressof(self.words)
        self.pointers = (ctypes.c_void_p * count)(*(start + 8 * k for k in range(count)))
        self.sizes: list[tuple[int, ...]] = []
        """Blocks, threads and shared memory of each kernel."""
        self.params: list[Any] = []
        self.changed: set[int] = set()
        """The kernels whose node has other arguments than the words say."""
        self.nodes: list[Any] = []
        self.where = users_line()
        """The line of the user's program that runs it for the first time."""
        self.graph: Any = None
        self.instance: Any = None

    @property
    def names(self) -> list[str]:
        """The names of the kernels, as a profile shows them."""
        from porism.engine.profile.work_counts import kernel_name

        return [kernel_name(step.kernel) for step in self.schedule.steps]

    def set_word(self, word: int, value: int) -> None:
        self.words[word] = value
        self.changed.add(bisect.bisect_right(self.begins, word) - 1)

    def set_shared(self, shared: Sequence[int], variables: Mapping[str, int]) -> None:
        sizes = [_dims(launch, variables) for _, launch in self.kernels]
        before = self.sizes or [()] * len(sizes)
        self.changed.update(k for k, (a, b) in enumerate(zip(before, sizes, strict=True)) if a != b)
        self.sizes = sizes

    def run(self) -> None:
        device = self.device
        device.enter()
        device.note_launch(self)
        if not self.kernels:
            return
        if len(self.kernels) == 1 or not all(all(sizes[:-1]) for sizes in self.sizes):
            for number in range(len(self.kernels)):  # a graph has no empty launches
                self.launch(number)
        else:
            self._update()
            device.call("cuGraphLaunch", self.instance, device.stream)

    def run_one(self, number: int) -> None:
        self.device.enter()
        self.device.note_launch(self)
        self.launch(number)
        self.device.synchronize()

    def launch(self, number: int) -> None:
        """Launch one kernel without a graph, and do not wait for it."""
        function, _ = self.kernels[number]
        *dims, local = self.sizes[number]
        arguments = self._arguments(number)
        device = self.device
        if all(dims):
            device.call("cuLaunchKernel", function, *dims, local, device.stream, arguments, 0)

    def _arguments(self, number: int) -> int:
        """Return the address of the pointers to the arguments of a kernel."""
        return ctypes.addressof(self.pointers) + 8 * self.begins[number]

    def _update(self) -> None:
        """Make the graph, or change the nodes whose arguments have changed."""
        if self.instance is None:
            self._make_graph()
        for number in sorted(self.changed):
            self._set_params(number)
            self.device.call(
                "cuGraphExecKernelNodeSetParams",
                self.instance,
                self.nodes[number],
                self.params[number],
            )
        self.changed.clear()

    def _make_graph(self) -> None:
        call = self.device.call
        self.graph = call("cuGraphCreate", 0)
        kind = self.device.driver.bindings.CUDA_KERNEL_NODE_PARAMS
        for number in range(len(self.kernels)):
            self.params.append(kind())
            self._set_params(number)
            before = [self.nodes[k] for k in self.schedule.steps[number].after]
            self.nodes.append(
                call("cuGraphAddKernelNode", self.graph, before, len(before), self.params[number])
            )
        self.instance = call("cuGraphInstantiate", self.graph, 0)
        self.changed.clear()

    def _set_params(self, number: int) -> None:
        params = self.params[number]
        params.func = self.kernels[number][0]
        sizes = self.sizes[number]
        params.gridDimX, params.gridDimY, params.gridDimZ = sizes[:3]
        params.blockDimX, params.blockDimY, params.blockDimZ = sizes[3:6]
        params.sharedMemBytes = sizes[6]
        params.kernelParams = self._arguments(number)


def _dims(launch: Launch, variables: Mapping[str, int]) -> tuple[int, ...]:
    """Return the blocks and the threads of a block in x, y and z, and the shared memory."""
    grid, block = launch.sizes(variables)
    return (*grid, *block, launch.local)


def _kernel_of(function: KernelFunction) -> tuple[Any, Launch]:
    """Return the handle and the launch dimensions of a compiled kernel."""
    assert isinstance(function.code, CudaModule)
    return function.code.functions[function.address]
