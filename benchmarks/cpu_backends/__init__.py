"""Backends: the libraries that the processor benchmark measures, a module for each."""

from __future__ import annotations

from importlib import import_module
from typing import cast

from benchmarks.cpu_operations import Backend

MODULES = {
    "porism": "on_porism:Porism",
    "porism beam": "on_porism:Porism",
    "numpy": "on_numpy:NumPy",
    "torch": "on_torch:Torch",
    "torch.compile": "on_torch:TorchCompile",
    "jax.jit": "on_jax:Jax",
    "onnxruntime": "on_onnxruntime:OnnxRuntime",
    "tinygrad": "on_tinygrad:Tinygrad",
}
"""Where each is, in the order of the table."""
PEERS: dict[str, tuple[str, ...]] = {
    "numpy": ("jax",),  # which brings scipy, for the error function
    "torch": ("torch",),
    "torch.compile": ("torch",),
    "jax.jit": ("jax",),
    "onnxruntime": ("onnxruntime",),
    "tinygrad": ("tinygrad", "ziglang"),  # which brings clang
}
"""What is installed for each."""


WITHOUT = "porism without "
"""Before the name of a feature: Porism without it."""


def start(name: str, threads: int) -> Backend:
    """The backend of that name, in this process."""
    if name.startswith(WITHOUT):
        from benchmarks.features import switch_off

        switch_off(name.removeprefix(WITHOUT))
        name = "porism"
    module, _, entry = MODULES[name].partition(":")
    made = getattr(import_module(f"benchmarks.cpu_backends.{module}"), entry)
    return cast(Backend, made(threads))
