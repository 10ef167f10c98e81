"""What kernels compute inside their loops in LLVM IR: addresses, registers, settings of LLVM."""

from __future__ import annotations

import re

import llvmlite.binding as llvm
import numpy as np
import pytest

import porism
from porism.backends.llvm.address_hoisting import AddressParts, AffineIndex
from porism.backends.llvm.host_target import host_target
from porism.backends.llvm.llvm_compiler import assembly, object_code, target_machine
from porism.backends.llvm.llvm_library import module_text
from porism.base.dtypes import Space, f32, i32
from porism.engine.run import realize
from porism.ir import ops
from porism.ir.axis import Axis
from porism.ir.node import UOp
from porism.pipeline import lower_kernel


def counter(number: int, size: int) -> UOp:
    return ops.RANGE(UOp.const(i32, size), arg=((number,), Axis.LOOP))


def loaded(at: UOp) -> list[UOp]:
    """The lines of a kernel that reads an element."""
    memory = ops.PARAM(arg=0, dtype=f32.pointer(Space.GLOBAL, 1 << 20))
    place = ops.INDEX(memory, at, dtype=memory.dtype)
    actual: dict[UOp, None] = {}

    def add(node: UOp) -> None:
        for s in node.src:
            add(s)
        actual[node] = None

    add(ops.LOAD(place, dtype=f32))
    return list(actual)


def test_an_index_is_a_sum_of_induction_variables_and_a_constant() -> None:
    a, b = counter(0, 10), counter(1, 20)
    lines = loaded((a * 20 + b) * 3 + 7)
    addresses = AddressParts(lines)
    (total,) = addresses.sums.values()
    assert total == AffineIndex({a: 60, b: 3}, 7)
    assert addresses.loops == {a, b}
    assert all(addresses.is_index_only(n) for n in lines if n.op in (ops.ADD, ops.MUL))


def test_a_sum_that_may_overflow_is_one_term() -> None:
    a = counter(0, 1 << 20)
    wrapping = a * (1 << 20)
    addresses = AddressParts(loaded(wrapping + 1))
    (total,) = addresses.sums.values()
    assert wrapping in total.terms or total.terms.keys() == {wrapping + 1}
    assert not addresses.is_index_only(next(iter(total.terms)))


def test_an_index_that_is_also_a_value_is_still_computed() -> None:
    a = counter(0, 10)
    index = a * 4
    lines = [*loaded(index), index + 1, ops.STORE(index, index)]
    assert not AddressParts(lines).is_index_only(index)


def source(tensor: porism.Tensor) -> str:
    (step,) = realize.schedule_of(realize.request([tensor.node]).graph).steps
    return module_text({"kernel": lower_kernel(step.kernel, host_target())})


def innermost(text: str) -> list[str]:
    """The lines of the longest block that ends with a jump to itself."""
    blocks = re.findall(r"^(\w+):\n((?:  .*\n|\n)*)", text, re.M)
    rounds = [lines.splitlines() for name, lines in blocks if f"label %{name}," in lines]
    return max(rounds, key=len)


@pytest.fixture
def product() -> str:
    a, b = (porism.asarray(np.zeros((384, 384), np.float32)) for _ in range(2))
    return source(porism.matmul(a, b))


def test_the_innermost_loop_of_a_product_computes_no_indices(product: str) -> None:
    inside = innermost(product)
    multiply = "llvm.fma" if "MULACC" in host_target().ops else "fmul"
    assert any(multiply in line for line in inside)
    assert not any(re.search(r" (mul|sext|zext|trunc) ", line) for line in inside)


def test_accumulators_of_a_product_are_ssa_values(product: str) -> None:
    inside = innermost(product)
    assert any(re.search(r"= phi <\d+ x float>", line) for line in inside)
    assert not any(" store " in line for line in inside)


def test_other_users_of_llvm_keep_their_settings(product: str) -> None:
    before = target_machine().emit_assembly(llvm.parse_assembly(product))
    object_code(product)
    assembly(product)
    assert target_machine().emit_assembly(llvm.parse_assembly(product)) == before
