"""PTX: what is printed for NVIDIA's GPUs, without a GPU and without an assembler.

`./dev suite ptx` assembles a corpus and the conformance suite.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

import pytest

from porism.backends.nvptx.ptx_compiler import PtxModule, llvm_text, ptx_module
from porism.backends.nvptx.ptx_memory import access_alignment
from porism.base import dtypes
from porism.base.dtypes import DType, bf16, f16, f32, i8, i32, index
from porism.base.errors import PorismError, TargetError
from porism.base.gpu_targets import A100, H200, RTX4090, TARGETS, nvidia_target
from porism.base.target import GENERIC_CPU, Target
from porism.ir import levels, ops
from porism.ir.node import UOp
from porism.ir.ops import Op
from porism.optimize.actions.action import Action
from porism.optimize.actions.gpu.tensor_core_action import TC
from porism.optimize.actions.gpu.thread_block_actions import Group, Local
from porism.optimize.actions.loops.loop_padding import PadTo
from porism.optimize.actions.loops.upcast_unroll import Upcast
from porism.pipeline import lower_kernel
from tests.block_kernels import matrix_product, pointer, row_sums
from tests.tiers import quick_if

ARCHES = ("sm_80", "sm_90a")


def chain(n: int, dtype: DType = f32) -> UOp:
    i = UOp.range(n, 0)
    value = pointer(1, n, dtype).index(i) + pointer(2, n, dtype).index(i)
    return ops.SINK(pointer(0, n, dtype).index(i).store(value).end(i))


def printed(
    kernel: UOp, actions: Sequence[Action], target: Target = H200, name: str = "k"
) -> PtxModule:
    return ptx_module({name: lower_kernel(kernel, target, actions=actions)}, target)


def ir_of(kernel: UOp, actions: Sequence[Action], target: Target = H200) -> str:
    return llvm_text({"k": lower_kernel(kernel, target, actions=actions)}, target)[0]


# -- one kernel ------------------------------------------------------------------------------------


@pytest.mark.parametrize("arch", ARCHES)
def test_a_chain_is_two_wide_loads_and_a_wide_store(arch: str) -> None:
    module = printed(chain(4096), [Upcast("r0", 4), Local("r0_0", 256)], TARGETS[arch])
    assert f".target {arch}" in module.text
    assert module.text.count("ld.global.nc.v4.b32") == 2
    assert module.text.count("st.global.v4.b32") == 1
    assert "add.rn.f32" in module.text  # or the assembler may contract it to a fused one
    assert ".reqntid 256, 1, 1" in module.text
    entry = module.entries["k"]
    assert (entry.buffers, entry.variables) == ((0, 1, 2), ())
    assert entry.launch.sizes() == ((4, 1, 1), (256, 1, 1))
    assert entry.launch.local == 0


def test_a_buffer_that_is_written_is_not_read_through_the_read_only_cache() -> None:
    i = UOp.range(64, 0)
    x = pointer(0, 64, f32)
    kernel = ops.SINK(x.index(i).store(x.index(i) + pointer(1, 64, f32).index(i)).end(i))
    text = printed(kernel, [Upcast("r0", 4)]).text
    assert text.count("ld.global.nc") == 1
    assert text.count("ld.global") == 2


def test_what_may_overlap_is_not_read_through_the_read_only_cache() -> None:
    lines = lower_kernel(chain(64), H200, actions=[Local("r0", 32)])
    assert "ld.global.nc" not in ptx_module({"k": lines}, H200, alias=True).text


def test_several_kernels_are_one_module() -> None:
    named = {
        "a": lower_kernel(chain(64), H200, actions=[Local("r0", 32)]),
        "b": lower_kernel(row_sums(4, 64), H200, actions=[Group("r1", 32)]),
    }
    module = ptx_module(named, H200)
    assert re.findall(r"\.visible \.entry (\w+)", module.text) == ["a", "b"]
    assert module.entries["b"].launch.local == 128
    assert module.text.count(".extern .shared") == 1


def test_variables_follow_the_buffers() -> None:
    n = UOp.variable("n", 1, 100)
    i = UOp.range(n, 0)
    kernel = ops.SINK(pointer(0, -1, f32).index(i).store(pointer(1, -1, f32).index(i) * 2).end(i))
    module = printed(kernel, [])
    entry = module.entries["k"]
    assert entry.variables == ("n",)
    assert entry.launch.sizes({"n": 7})[0] == (7, 1, 1)


def test_shared_memory_is_behind_barriers() -> None:
    text = printed(row_sums(4, 64), [Group("r1", 16)]).text
    order = re.findall(r"st\.shared|bar\.sync|ld\.shared", text)
    assert order[:2] == ["st.shared", "bar.sync"]
    assert set(order[2:]) == {"ld.shared"}


# -- masks -----------------------------------------------------------------------------------------


def test_a_masked_load_has_no_branch_and_a_masked_store_has_one() -> None:
    text = ir_of(chain(1000), [PadTo("r0", 256), Local("r0", 256)])
    assert text.count("select i1") == 4  # of both loads: the address, and the value
    assert len(re.findall(r"br i1 .*\.store", text)) == 1


def test_lanes_with_masks_of_their_own_are_aligned_as_single_elements() -> None:
    text = ir_of(chain(30), [PadTo("r0", 4), Upcast("r0", 4)])
    loads = re.findall(r"load float, ptr \S+ align (\d+)", text)
    assert loads.count("4") >= 4  # lanes 1 and 3
    assert not re.findall(r"load <", text)


def test_alignment_is_what_the_index_says() -> None:
    i = UOp.range(64, 0)
    buffer = pointer(0, 1024, f32)

    def of(at: UOp, lanes: int, after: int = 0) -> int:
        return access_alignment(buffer.index(at, dtype=f32.vec(lanes)), f32.vec(lanes), after)

    assert of(i * 4, 4) == 16
    assert of(i * 2, 4) == 8
    assert of(i * 4 + 1, 4) == 4
    assert of(i * 8, 8) == 16  # at most that of the buffer
    assert of(UOp.const(index, 0), 4) == 16
    assert of(i * 4, 1) == 16
    assert [of(i * 4, 1, after) for after in (1, 2, 3)] == [4, 8, 4]


# -- tensor cores ----------------------------------------------------------------------------------

CORES = {
    "f16": (16, 8, 16, f16, f32, "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32"),
    "f16 sums": (16, 8, 16, f16, f16, "mma.sync.aligned.m16n8k16.row.col.f16.f16.f16.f16"),
    "bf16": (16, 8, 16, bf16, f32, "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32"),
    "i8": (16, 8, 32, i8, i32, "mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32"),
    "f64": (8, 8, 4, dtypes.f64, dtypes.f64, "mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64"),
    "fp8": (16, 8, 32, dtypes.fp8e4m3, f32,
            "mma.sync.aligned.m16n8k32.row.col.f32.e4m3.e4m3.f32"),
}  # fmt: skip


@pytest.mark.parametrize("name", CORES)
def test_each_tensor_core_has_its_instruction(name: str) -> None:
    m, n, k, of, to, instruction = CORES[name]
    text = printed(matrix_product(m, n, k, of, to), [TC("r0", "r1", "r2")]).text
    assert instruction in text
    assert not re.search(r"ld\.local|st\.local", text)


def test_every_tensor_core_of_the_targets_has_an_instruction() -> None:
    known = {(of.name, to.name) for _, _, _, of, to, _ in CORES.values()} | {("fp8e5m2", "f32")}
    for target in TARGETS.values():
        assert {(c.dtype_in, c.dtype_out) for c in target.tensor_cores} <= known


def test_an_unknown_tensor_core_is_told() -> None:
    fragments = [UOp(ops.PARAM, f32.vec(count), (), k) for k, count in enumerate((4, 2, 4))]
    node = ops.WMMA(*fragments, arg=("m16n8k8", (16, 8, 8), (16, 8, 8), 32))
    with pytest.raises(PorismError, match="no matrix instruction"):
        llvm_text({"k": [*fragments, node]}, H200)


# -- every op of every type ------------------------------------------------------------------------

SCALARS = [d for d in dtypes.scalars() if d is not dtypes.index]
SHAPES: tuple[tuple[Action, ...], ...] = (
    (Local("r0", 32),),
    (Upcast("r0", 4), Local("r0_0", 4)),
)


def _of(op: Op, source: DType, to: DType | None = None) -> UOp | None:
    """A kernel with one op on every element; None if the op does not take the type."""
    i = UOp.range(64, 0)
    sources = [pointer(k + 1, 64, source).index(i) for k in range(op.arity)]
    try:
        value = sources[0].cast(to) if to is not None else op(*sources)
    except PorismError:
        return None
    return ops.SINK(pointer(0, 64, value.dtype).index(i).store(value).end(i))


@pytest.mark.parametrize("arch", ARCHES)
@pytest.mark.parametrize("dtype", quick_if(lambda d: d is f16, SCALARS), ids=str)
def test_every_op_has_code(dtype: DType, arch: str) -> None:
    """LLVM ends the process where it has no instruction, so nothing of it may be met by a user."""
    possible = [op for op in ops.table() if op.elementwise and op in levels.KERNEL.ops]
    kernels = [_of(op, dtype) for op in possible if op is not ops.WHERE]
    kernels += [_of(ops.CAST, dtype, to) for to in SCALARS]
    named = {
        f"k{number}_{way}": lower_kernel(kernel, TARGETS[arch], actions=actions)
        for number, kernel in enumerate(kernels)
        if kernel is not None
        for way, actions in enumerate(SHAPES)
    }
    module = ptx_module(named, TARGETS[arch])
    assert module.text.count(".visible .entry") == len(named)


def test_exp2_of_floats_is_one_instruction_and_of_doubles_a_polynomial() -> None:
    for dtype, count in ((f32, 1), (f16, 1), (dtypes.f64, 0)):
        kernel = _of(ops.EXP2, dtype)
        assert kernel is not None
        assert printed(kernel, [Local("r0", 32)]).text.count("ex2.approx.f32") == count


# -- targets ---------------------------------------------------------------------------------------


def test_only_nvidias_gpus_have_ptx() -> None:
    with pytest.raises(TargetError, match="no NVIDIA GPU") as caught:
        ptx_module({}, GENERIC_CPU)
    assert "porism.base.gpu_targets" in str(caught.value)


def test_a_capability_has_a_target_whose_code_runs_on_it() -> None:
    assert nvidia_target((8, 0), 108) == A100
    assert nvidia_target((9, 0), 114).cores == 114
    assert nvidia_target((8, 7), 16).name == "rtx3090"
    assert nvidia_target((12, 0), 170).gpu == RTX4090.gpu  # `sm_90a` would not run
    with pytest.raises(TargetError, match=r"compute capability 7\.5"):
        nvidia_target((7, 5), 68)


def test_neighbouring_threads_read_neighbouring_elements() -> None:
    module = printed(row_sums(64, 64), [Group("r1", 32), Local("r0", 4)])
    assert module.entries["k"].launch.sizes()[1] == (32, 4, 1)
