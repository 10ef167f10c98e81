"""GPU targets: NVIDIA's GPUs from compute capability 8.0 to 9.0 as `Target`s.

Limits of blocks and multiprocessors are from the tables of compute capabilities in the CUDA C++
Programming Guide; cores, caches, clocks and rates from NVIDIA's white papers on the architectures
GA100, GA102, AD102 and GH100, and from the data sheets of the products. A rate in FLOP/s counts a
multiply-add as two.

>>> [core for core in H200.tensor_cores if core.dtype_in == "bf16"]
[TensorCore(m=16, n=8, k=16, dtype_in='bf16', dtype_out='f32', threads=32)]
>>> TARGETS["sm_89"].name, nvidia_target((9, 0), 132).name
('rtx4090', 'h200')
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from porism.base.errors import TargetError
from porism.base.gpu import Gpu
from porism.base.target import GENERIC_CPU, KIB, MIB, Memory, Target, TensorCore

_CORES: Final = (
    TensorCore(m=16, n=8, k=16, dtype_in="f16", dtype_out="f16", threads=32),
    TensorCore(m=16, n=8, k=16, dtype_in="f16", dtype_out="f32", threads=32),
    TensorCore(m=16, n=8, k=16, dtype_in="bf16", dtype_out="f32", threads=32),
    TensorCore(m=16, n=8, k=32, dtype_in="i8", dtype_out="i32", threads=32),
)
"""Instructions `mma.sync` that all of these GPUs have (PTX ISA, warp-level matrix instructions)."""

_F64_CORE: Final = TensorCore(m=8, n=8, k=4, dtype_in="f64", dtype_out="f64", threads=32)

_FP8_CORES: Final = (
    TensorCore(m=16, n=8, k=32, dtype_in="fp8e4m3", dtype_out="f32", threads=32),
    TensorCore(m=16, n=8, k=32, dtype_in="fp8e5m2", dtype_out="f32", threads=32),
)
"""From compute capability 8.9 on, with PTX 8.4."""

_GPU_OPS: Final = GENERIC_CPU.ops | {
    "MAX", "MIN", "MULACC", "RECIPROCAL", "TRUNC", "FLOOR", "CEIL", "ROUND",
}  # fmt: skip

A100: Final = Target(
    name="a100",
    ops=_GPU_OPS,
    native_ops=frozenset({("EXP2", "f32")}),
    dtypes=GENERIC_CPU.dtypes | {"f16", "bf16"},
    load_bytes=(1, 2, 4, 8, 16),
    memory=Memory(l1=192 * KIB, l2=40 * MIB, local=163 * KIB, registers=255),
    cores=108,
    grid=(2**31 - 1, 65535, 65535),
    block=(1024, 1024, 64),
    block_threads=1024,
    warp=32,
    tensor_cores=(*_CORES, _F64_CORE),
    predicated_store=True,
    gpu=Gpu(
        arch="sm_80",
        isa=80,
        sm_threads=2048,
        sm_blocks=32,
        sm_registers=65536,
        sm_shared=164 * KIB,
        clock=1.41e9,
        bandwidth=2.04e12,  # 80 GB, SXM
        fma=9.75e12,
        tensor_fma=156e12,
    ),
)
"""NVIDIA A100 80 GB (SXM)."""

RTX3090: Final = dataclasses.replace(
    A100,
    name="rtx3090",
    memory=Memory(l1=128 * KIB, l2=6 * MIB, local=99 * KIB, registers=255),
    cores=82,
    tensor_cores=_CORES,
    gpu=Gpu(
        arch="sm_86",
        isa=80,
        sm_threads=1536,
        sm_blocks=16,
        sm_registers=65536,
        sm_shared=100 * KIB,
        clock=1.695e9,
        bandwidth=936e9,
        fma=17.8e12,
        tensor_fma=35.5e12,
    ),
)
"""NVIDIA GeForce RTX 3090; compute capability 8.6."""

RTX4090: Final = dataclasses.replace(
    A100,
    name="rtx4090",
    memory=Memory(l1=128 * KIB, l2=72 * MIB, local=99 * KIB, registers=255),
    cores=128,
    tensor_cores=(*_CORES, *_FP8_CORES),
    gpu=Gpu(
        arch="sm_89",
        isa=84,
        sm_threads=1536,
        sm_blocks=24,
        sm_registers=65536,
        sm_shared=100 * KIB,
        clock=2.52e9,
        bandwidth=1008e9,
        fma=41.3e12,
        tensor_fma=82.6e12,
    ),
)
"""NVIDIA GeForce RTX 4090; compute capability 8.9."""

H200: Final = dataclasses.replace(
    A100,
    name="h200",
    memory=Memory(l1=256 * KIB, l2=50 * MIB, local=227 * KIB, registers=255),
    cores=132,
    tensor_cores=(*_CORES, *_FP8_CORES, _F64_CORE),
    gpu=Gpu(
        arch="sm_90a",
        isa=84,
        sm_threads=2048,
        sm_blocks=32,
        sm_registers=65536,
        sm_shared=228 * KIB,
        clock=1.98e9,
        bandwidth=4.8e12,
        fma=33.5e12,
        tensor_fma=495e12,
    ),
)
"""NVIDIA H200 (SXM); compute capability 9.0, with the features of `sm_90a`."""

_H200_GPU: Final = H200.gpu
assert _H200_GPU is not None
H100: Final = dataclasses.replace(
    H200, name="h100", gpu=dataclasses.replace(_H200_GPU, bandwidth=3.35e12)
)
"""NVIDIA H100 (SXM)."""

TARGETS: Final[Mapping[str, Target]] = MappingProxyType(
    {"sm_80": A100, "sm_86": RTX3090, "sm_89": RTX4090, "sm_90a": H200}
)
"""A target for each architecture that code is made for."""


def nvidia_target(capability: tuple[int, int], cores: int) -> Target:
    """Return the target for a compute capability and a number of multiprocessors.

    A capability without a row has that of the closest older one whose code it runs: the driver
    takes PTX for 8.9 on every later GPU. `sm_90a` runs on 9.0 alone.
    """
    rows = {(8, 0): A100, (8, 6): RTX3090, (8, 9): RTX4090, (9, 0): H200}
    older = [row for row in rows if row == capability or (row < capability and row != (9, 0))]
    if not older:
        raise TargetError(
            f"a GPU of compute capability {capability[0]}.{capability[1]}",
            why="code is made from 8.0 (Ampere) on: older GPUs lack asynchronous copies and bf16",
            fix="use a newer GPU, or the CPU",
        )
    return dataclasses.replace(rows[max(older)], cores=cores)
