"""The text of C: what people read, what compilers accept, and what happens without a compiler."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import numpy as np
import pytest

import porism
from porism.backends.c.c_compiler import Compiler, compile_library, compiler, load
from porism.backends.c.c_dialect import Dialect
from porism.backends.c.c_renderer import module, text
from porism.base import dtypes
from porism.base.dtypes import DType, Space, boolean, f32, i32
from porism.base.errors import PorismError
from porism.base.settings import settings
from porism.ir import ops
from porism.ir.axis import Axis
from porism.ir.node import UOp
from porism.lower.linearize import linearize
from tests.backends.running import (
    STRICT,
    call,
    evaluated,
    pointer,
    same_bits,
    works,
)
from tests.backends.test_conformance import (
    EITHER_ZERO,
    SCALARS,
    computed_ops,
    conversion_kernel,
    elementwise_kernel,
    one_way,
    op_kernel,
    operands,
)

needs_compiler = pytest.mark.skipif(not works("c"), reason="no compiler")


def scaled(kind: Axis = Axis.LOOP) -> list[UOp]:
    """Parameter 0 = 2 * parameter 1 + 1, four lanes at a time."""
    i = UOp.range(UOp.const(i32, 25), 0, kind)
    value = pointer(1, f32, 100).index(i * 4, dtype=f32.vec(4)) * 2.0 + 1.0
    out = pointer(0, f32, 100).index(i * 4, dtype=value.dtype)
    return linearize(ops.SINK(out.store(value).end(i)))


SCALED = """
typedef float f32x4 __attribute__((vector_size(16), aligned(4), may_alias));

void scale(
    float *restrict out0,       /* 100 elements of f32, written */
    const float *restrict in1   /* 100 elements of f32, read */
)
{
    for (int32_t i0 = 0; i0 < 25; i0++) { AS_WRITTEN
        int32_t x1 = i0 * 4;
        f32x4 x2 = *(const f32x4 *)&in1[x1];
        f32x4 x3 = x2 * 2.0f;
        f32x4 x4 = x3 + 1.0f;
        *(f32x4 *)&out0[x1] = x4;
    }
}
"""


def test_a_kernel_reads_well() -> None:
    written = text(scaled(), "scale")
    assert written.startswith("#include <math.h>\n")
    assert written.endswith(SCALED)


def test_a_shared_loop_takes_its_part() -> None:
    written = text(scaled(Axis.THREAD), "scale")
    assert "    int64_t begin,              /* the first iteration" in written
    assert "    for (int32_t i0 = (int32_t)begin; i0 < (int32_t)end; i0++) {" in written


def test_a_reduction_reads_well() -> None:
    k = UOp.range(UOp.const(i32, 5), 1, Axis.REDUCE)
    total = pointer(1, f32, 15).index(k).reduce(ops.ADD, k)
    lines = linearize(ops.SINK(pointer(0, f32, 1).index(UOp.const(i32, 0)).store(total)))
    assert text(lines, "rows").endswith("""{
    float acc0;
    acc0 = 0.0f;
    for (int32_t k1 = 0; k1 < 5; k1++) { AS_WRITTEN
        float x1 = in1[k1];
        acc0 = acc0 + x1;
    }
    out0[0] = acc0;
}
""")


def test_a_variable_keeps_its_name_where_c_allows_it() -> None:
    for name, wanted in (("rows", "rows"), ("int", "n_int"), ("x1", "n_x1"), ("sin", "n_sin")):
        n = UOp(ops.VARIABLE, dtypes.i64, (), (name, 0, 9))
        i = UOp.range(n, 0)
        kernel = ops.SINK(pointer(0, dtypes.i64, 9).index(i).store(n + i).end(i))
        written = text(linearize(kernel), "kernel")
        assert f"int64_t {wanted} " in written
        assert "/* from 0 to 9 */" in written


def test_an_op_that_no_machine_has_is_refused() -> None:
    kernel = elementwise_kernel(lambda v: v[0] ** v[1], f32, 1, 4)
    with pytest.raises(PorismError, match="POW of f32 has no form in C") as caught:
        text(linearize(kernel), "kernel")
    assert "it should have been lowered before" in str(caught.value)


class Blocks(Dialect):
    """A dialect with thread blocks, as CUDA is."""

    def special(self, node: UOp) -> str:
        return f"(int32_t)threadIdx.{'xyz'[int(str(node.arg)[-1])]}"

    def barrier(self, node: UOp) -> str:
        return "__syncthreads();"


def test_a_dialect_overrides_what_it_has_otherwise() -> None:
    thread = UOp(ops.SPECIAL, i32, (UOp.const(i32, 8),), "thread0")
    shared = UOp(ops.DEFINE_LOCAL, f32.pointer(Space.LOCAL, 8), (), 0)

    def at(base: UOp, index: UOp) -> UOp:
        return UOp(ops.INDEX, base.dtype, (base, index))

    filled = UOp(
        ops.BARRIER, None, (at(shared, thread).store(at(pointer(1, f32, 8), thread).load()),)
    )
    value = at(shared.after(filled), 7 - thread).load()
    sink = ops.SINK(at(pointer(0, f32, 8), thread).store(value))
    lines = linearize(sink)
    dialect = Blocks(
        name="blocks", entry='extern "C" __global__ void', restrict="__restrict__",
        local="__shared__", vector_arithmetic=False, prelude="",
    )  # fmt: skip
    written = text(lines, "turn", dialect)
    assert 'extern "C" __global__ void turn(' in written
    assert "const float *__restrict__ in1" in written
    assert "__shared__ float shared0[8]" in written
    assert written.index("__syncthreads();") > written.index("shared0[(int32_t)threadIdx.x] = ")
    with pytest.raises(PorismError, match="SPECIAL of i32 has no form in C"):
        text(lines, "turn")


# -- what it computes ------------------------------------------------------------------------------


@pytest.mark.slow
@needs_compiler
@pytest.mark.parametrize("dtype", SCALARS, ids=str)
@pytest.mark.parametrize("width", [1, 4])
def test_the_text_is_total_by_itself(dtype: DType, width: int) -> None:
    """Shifts, divisions, small floats and conversions mean what they do without decompositions."""
    data, size = operands(dtype, width)
    cases = {}
    for op in computed_ops(dtype):
        kernel = op_kernel(op, dtype, width, size)
        result = boolean if op.group is ops.COMPARISON else dtype
        cases[f"kernel_{op.name}"] = (kernel, [np.zeros(size, result.numpy), *data])
    for target in SCALARS:
        if target is not dtype:
            kernel = conversion_kernel(ops.CAST, dtype, target, width, 48)
            cases[f"cast_{target.name}"] = (
                kernel,
                [np.zeros(48, target.numpy), one_way(dtype, 48)],
            )
    named = {name: linearize(kernel) for name, (kernel, _) in cases.items()}
    functions = load(named, STRICT)
    for name, (kernel, buffers) in cases.items():
        found = [b.copy() for b in buffers]
        call(functions[name], found)
        zeros = any(n.op in EITHER_ZERO for n in named[name])
        same_bits(evaluated(kernel, buffers)[0], found[0], name, zeros=zeros)


@needs_compiler
def test_the_text_does_not_depend_on_flags() -> None:
    """Exported text is compiled by others: what overflows is said in the text, or it traps here."""
    kernel = elementwise_kernel(lambda v: (v[0] + v[1]) * v[2] - v[0] * v[0], i32, 4, 64)
    buffers = [np.zeros(64, np.int32), *(np.arange(64, dtype=np.int32) * 99_999_989 for _ in "abc")]
    strict = ("-fno-wrapv", "-fsanitize=undefined", "-fsanitize-undefined-trap-on-error")
    function = load({"kernel": linearize(kernel)}, [*STRICT, *strict])["kernel"]
    found = [b.copy() for b in buffers]
    call(function, found)
    np.testing.assert_array_equal(found[0], evaluated(kernel, buffers)[0])


# -- compilers -------------------------------------------------------------------------------------


def test_without_a_compiler_the_error_says_what_to_do(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.delenv("CC", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(PorismError, match="there is no C compiler that works") as caught:
        compiler()
    message = str(caught.value)
    assert "gcc was not found; clang was not found; cc was not found" in message
    assert "PORISM_BACKEND=llvm, which needs none" in message


@pytest.mark.parametrize(
    ("command", "why"),
    [
        ("no-such-compiler -m64", "no-such-compiler -m64 was not found"),
        ("'", "No closing quotation"),
    ],
)
def test_a_bad_cc_is_named(monkeypatch: pytest.MonkeyPatch, command: str, why: str) -> None:
    monkeypatch.setenv("CC", command)
    with pytest.raises(PorismError, match="the environment variable CC") as caught:
        compiler()
    assert why in str(caught.value)


def test_what_is_no_compiler_is_told_so(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    fake = tmp_path / "fake"
    fake.write_text("#!/bin/sh\necho 'I compile nothing' >&2\nexit 1\n")
    fake.chmod(fake.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("CC", os.fspath(fake))
    with pytest.raises(PorismError, match="I compile nothing"):
        compiler()


@needs_compiler
def test_cc_may_have_arguments(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CC", raising=False)
    found = compiler()
    monkeypatch.setenv("CC", f"{found} -DNOTHING=1")
    other = compiler()
    assert isinstance(other, Compiler)
    assert other.command[-1] == "-DNOTHING=1"
    assert "NOTHING" in other.macros
    compile_library(module({"kernel": scaled()}))


@needs_compiler
def test_a_text_that_is_refused_is_an_error_with_the_first_words() -> None:
    with pytest.raises(PorismError, match="refused the text") as caught:
        compile_library("int broken( {")
    assert "error" in str(caught.value)


@needs_compiler
def test_functions_outlive_the_folder_and_each_other() -> None:
    functions = [load({"kernel": scaled()})["kernel"] for _ in range(3)]
    del functions[1]
    given = np.arange(100, dtype=np.float32)
    for function in functions:
        found = np.zeros(100, np.float32)
        call(function, [found, given])
        np.testing.assert_array_equal(found, given * 2 + 1)


@pytest.mark.parametrize("size", [3, 4, 7])
def test_masks_of_two_lanes_become_numbers(size: int) -> None:
    """GCC 12 gives -1 for 1 if they are compared with 0: here, for a place."""
    x = np.random.default_rng(0).standard_normal((3, size)).astype(np.float32)
    with settings.override(backend="c"):
        values = porism.topk(porism.asarray(x), 2).values.numpy()
    np.testing.assert_array_equal(values, -np.sort(-x, axis=1)[:, :2])


@pytest.mark.parametrize("shape", [(2, 3, 4), (3, 1, 5)])
def test_local_memory_of_one_element_is_an_array(shape: tuple[int, ...]) -> None:
    with settings.override(backend="c"):
        ones = porism.ones_like(porism.zeros(*shape).realize())
        result = ones.cumulative_prod(axis=2, include_initial=True)
        assert result.numpy().all()
        assert result.shape == (*shape[:2], shape[2] + 1)


def test_elements_of_computed_indices_are_read_one_by_one() -> None:
    """gcc 12.2 makes vectors of such loops, and reads other elements: it is not to look for any."""
    x = porism.asarray(np.arange(468.0, dtype=np.float32).reshape(6, 78) - 200)
    y = porism.asarray(np.array([3.0, -4.0], np.float32).reshape(2, 1, 1))
    both = np.maximum(y.numpy(), x.numpy()).reshape(39, 24)
    with settings.override(backend="c", cache=False):
        rows = y.maximum(x).reshape((39, 24))
        np.testing.assert_array_equal(rows.sum(1).numpy(), both.sum(1))
        np.testing.assert_array_equal(
            (rows - rows.sum(1, keepdims=True)).numpy(), both - both.sum(1, keepdims=True)
        )
