"""Programs on torch: operation by operation, and through torch.compile."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import FunctionType
from typing import Any

import numpy as np
import torch  # type: ignore[import-not-found, unused-ignore]
import torch.nn.functional as functional  # type: ignore[import-not-found, unused-ignore]
from numpy.typing import NDArray

from benchmarks.cpu_backends.survey_on_torch import SurveyOnTorch
from benchmarks.cpu_operations import EPSILON, Array, Arrays, Call, Program, Read, as_one


class TorchOperations(SurveyOnTorch):
    """Those of torch.nn.functional, where there are such."""

    exp = staticmethod(torch.exp)
    tanh = staticmethod(torch.tanh)
    relu = staticmethod(torch.relu)
    reshape = staticmethod(torch.reshape)
    permute = staticmethod(torch.permute)

    def gelu(self, x: Array, by_tanh: bool = False) -> Array:
        return functional.gelu(x, approximate="tanh" if by_tanh else "none")

    def stored(self, x: Array) -> Array:
        return x.contiguous()

    def halves(self, x: Array) -> Sequence[Array]:
        outcome: Sequence[Array] = x.chunk(2, -1)
        return outcome

    def thirds(self, x: Array) -> Sequence[Array]:
        outcome: Sequence[Array] = x.chunk(3, -1)
        return outcome

    def joined(self, parts: Sequence[Array]) -> Array:
        return torch.cat(list(parts), -1)

    def take(self, table: Array, rows: Array) -> Array:
        return functional.embedding(rows, table)

    def sum(self, x: Array, axis: int | None) -> Array:
        return x.sum() if axis is None else x.sum(axis)

    def cumsum(self, x: Array) -> Array:
        return x.cumsum(-1)

    def argmax(self, x: Array) -> Array:
        return x.argmax(-1)

    def softmax(self, x: Array) -> Array:
        return torch.softmax(x, -1)

    def layer_norm(self, x: Array, weight: Array, bias: Array) -> Array:
        return functional.layer_norm(x, weight.shape, weight, bias, EPSILON)

    def rms_norm(self, x: Array, weight: Array) -> Array:
        return functional.rms_norm(x, weight.shape, weight, EPSILON)

    def linear(self, x: Array, weight: Array, bias: Array) -> Array:
        return torch.addmm(bias, x, weight)

    def attention(self, q: Array, k: Array, v: Array, causal: bool = False) -> Array:
        attend = functional.scaled_dot_product_attention
        if q.ndim == 4:
            return attend(q, k, v, is_causal=causal)
        return attend(q[None], k[None], v[None], is_causal=causal)[
            0
        ]  # its fast way needs four axes

    def conv(self, x: Array, weight: Array, stride: int, padding: int, groups: int = 1) -> Array:
        return functional.conv2d(x, weight, None, stride, padding, 1, groups)

    def batch_norm(self, x: Array, statistics: Sequence[Array]) -> Array:
        scale, offset, mean, variance = statistics
        return functional.batch_norm(x, mean, variance, scale, offset, False, 0.1, EPSILON)

    def max_pool(self, x: Array) -> Array:
        return functional.max_pool2d(x, 3, 2, 1)

    def mean_of_image(self, x: Array) -> Array:
        return x.mean((2, 3))


def read(result: Array) -> Any:
    if isinstance(result, tuple):
        return as_one([read(part) for part in result])
    return (result.float() if result.dtype == torch.bfloat16 else result).numpy()


def tensor(array: NDArray[Any]) -> Array:
    """An array of NumPy in the same memory."""
    if array.dtype.name == "bfloat16":  # which NumPy does not know
        return torch.from_numpy(array.view(np.int16)).view(torch.bfloat16)
    return torch.from_numpy(array)


def own_code(model: Any) -> None:
    """Give the class of a model a code object of its own: torch.compile keeps few kernels for one.

    So a program that is compiled later does not take the place of an earlier one.
    """
    old = model.forward
    new = FunctionType(old.__code__.replace(), old.__globals__, old.__name__, None, old.__closure__)
    new.__kwdefaults__ = old.__kwdefaults__
    model.forward = new


class Torch:
    """torch without a compiler."""

    version = torch.__version__

    def __init__(self, threads: int) -> None:
        torch.set_num_threads(threads)
        torch.set_grad_enabled(False)
        self.operations = TorchOperations()

    def prepare(
        self, program: Program, arrays: Arrays, constants: frozenset[str]
    ) -> tuple[Call, Read]:
        tensors = {name: tensor(array) for name, array in arrays.items()}
        weights = {name: tensors.pop(name) for name in constants}
        run = self.compiled(program, weights)
        return lambda: run(**tensors), read

    def compiled(self, program: Program, weights: dict[str, Array]) -> Callable[..., Array]:
        return lambda **inputs: program(self.operations, **inputs, **weights)


class TorchCompile(Torch):
    """torch.compile; weights are parameters of a module, which it may fold and lay out anew."""

    def __init__(self, threads: int) -> None:
        super().__init__(threads)
        torch.compile(lambda x: x + 1)(torch.zeros(8))  # what is loaded when it is first used

    def compiled(self, program: Program, weights: dict[str, Array]) -> Callable[..., Array]:
        import torch._inductor.config as config  # type: ignore[import-not-found, unused-ignore]

        config.freezing = bool(weights)
        operations = self.operations

        class Model(torch.nn.Module):  # type: ignore[misc, unused-ignore]
            def __init__(self) -> None:
                super().__init__()
                for name, weight in weights.items():
                    self.register_parameter(name, torch.nn.Parameter(weight, requires_grad=False))

            def forward(self, **inputs: Array) -> Array:
                own = {name: getattr(self, name) for name in weights}
                return program(operations, **inputs, **own)

        own_code(Model)
        outcome: Callable[..., Array] = torch.compile(Model().eval(), dynamic=False)
        return outcome
