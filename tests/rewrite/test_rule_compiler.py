"""Generated functions match what their rules say, in every order of operands."""

from __future__ import annotations

import itertools
import linecache
import traceback
from collections.abc import Iterator
from typing import Any

import pytest

from porism.base import dtypes
from porism.base.dtypes import SLOTS, DType, Theory
from porism.base.errors import RuleError
from porism.ir import ops
from porism.ir.node import UOp
from porism.ir.ops import Op
from porism.rewrite.commuted_patterns import variants
from porism.rewrite.construction import Compiled, construction_flavour
from porism.rewrite.graph_rewrite import rewrite
from porism.rewrite.rule import RuleSet, procedure, rule
from porism.rewrite.rule_compiler import candidates, compile_function
from porism.rewrite.terms import (
    FALSE,
    TRUE,
    c0,
    c1,
    cast,
    constant,
    divides,
    fits,
    hi,
    literal,
    lo,
    maximum,
    minimum,
    modulus,
    most,
    p,
    remainder,
    signed,
    u,
    where,
    x,
    y,
    z,
)
from porism.rules.rule_sets import ALGEBRA

INTEGERS = (Theory.INTEGERS, Theory.FIXED_WIDTH)


def alone(*sides: Any, theory: Any = INTEGERS, **options: Any) -> RuleSet:
    """One rule as a set."""
    return RuleSet("alone", theory=theory, rules=(rule("case", *sides, **options),))


def applied(node: UOp, rules: RuleSet) -> UOp:
    """The node after the rule, all else left as it is."""
    return rewrite(node, rules, exactly=True)


def leaf(name: str, dtype: DType = dtypes.index, low: int = 0, high: int = 9) -> UOp:
    return UOp(ops.VARIABLE, dtype, (), (name, low, high))


def exact(op: Op, *src: UOp) -> UOp:
    return UOp(op, None, src)


def orders(op: Op, *src: UOp) -> Iterator[UOp]:
    """A node with its operands in every order."""
    for each in itertools.permutations(src):
        yield exact(op, *each)


# -- matching --------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [dtypes.index, dtypes.i32], ids=str)
def test_a_rule_fires_in_all_orders_of_commutative_operands(dtype: DType) -> None:
    a, b = leaf("a", dtype), leaf("b", dtype)
    four, eight = UOp.const(dtype, 4), UOp.const(dtype, 8)
    rules = alone((x * c0 + y) // c1, maximum(x, y), when=divides(c0, c1))
    wanted = exact(ops.MAX, a, b)
    for product in orders(ops.MUL, a, four):
        for total in orders(ops.ADD, product, b):
            assert applied(exact(ops.IDIV, total, eight), rules) is wanted


def test_operands_that_do_not_commute_keep_their_places() -> None:
    a, b = leaf("a"), leaf("b")
    rules = alone((x - y) // y, x)
    assert applied(exact(ops.IDIV, exact(ops.SUB, a, b), b), rules) is a
    swapped = exact(ops.IDIV, exact(ops.SUB, b, a), b)
    assert applied(swapped, rules) is swapped


def test_a_repeated_hole_is_the_same_node() -> None:
    a, b = leaf("a"), leaf("b")
    rules = alone((x + y) * (x - y), x)
    good = exact(ops.MUL, exact(ops.ADD, b, a), exact(ops.SUB, a, b))
    assert applied(good, rules) is a
    bad = exact(ops.MUL, exact(ops.ADD, a, a), exact(ops.SUB, a, b))
    assert applied(bad, rules) is bad
    equal = alone(maximum(x, x), x)
    assert applied(exact(ops.MAX, b, b), equal) is b
    assert applied(exact(ops.MAX, a, b), equal) is not a


def test_a_repeated_constant_is_the_same_constant() -> None:
    a = leaf("a")
    rules = alone((x // c0) * c0, x)
    for first, second, fires in ((5, 5, True), (5, 7, False)):
        quotient = exact(ops.IDIV, a, UOp.const(dtypes.index, first))
        node = exact(ops.MUL, quotient, UOp.const(dtypes.index, second))
        assert (applied(node, rules) is a) is fires


def test_patterns_nest() -> None:
    a, b, c = leaf("a"), leaf("b"), leaf("c")
    rules = alone(((x * y) // z) % ((x + z) * z), x)
    deep = exact(ops.IDIV, exact(ops.MUL, b, a), c)
    for total in orders(ops.ADD, a, c):
        for product in orders(ops.MUL, total, c):
            assert applied(exact(ops.MOD, deep, product), rules) is a
    other = exact(ops.MOD, deep, exact(ops.MUL, exact(ops.ADD, a, b), c))
    assert applied(other, rules) is other


def test_only_constants_match_constants() -> None:
    a, b = leaf("a"), leaf("b")
    rules = alone(x % c0, x)
    assert applied(exact(ops.MOD, a, UOp.const(dtypes.index, 3)), rules) is a
    assert applied(exact(ops.MOD, a, b), rules).op is ops.MOD


FLOAT_LITERALS = [
    (0.0, 0.0, True), (0.0, -0.0, False), (-0.0, -0.0, True), (-0.0, 0.0, False),
    (0, 0.0, True), (0, -0.0, False), (1.0, 1.0, True), (1, 1.0, True), (1.0, 2.0, False),
]  # fmt: skip


@pytest.mark.parametrize(("stated", "met", "fires"), FLOAT_LITERALS)
def test_zeros_differ_by_sign(stated: float, met: float, fires: bool) -> None:
    a = UOp(ops.PARAM, dtypes.f32, (), 0)
    rules = alone(x + literal(stated), x, theory=Theory.FLOATS)
    for node in orders(ops.ADD, a, UOp.const(dtypes.f32, met)):
        assert (applied(node, rules) is a) is fires


def test_an_integer_zero_has_no_sign() -> None:
    a = leaf("a", dtypes.i32)
    rules = alone(x + literal(-0.0), x)
    assert applied(exact(ops.ADD, a, UOp.const(dtypes.i32, 0)), rules) is a


def test_truths_match_only_themselves() -> None:
    a = UOp(ops.PARAM, dtypes.boolean, (), 0)
    rules = alone(p & TRUE, p, theory=Theory.BOOLEANS)
    for truth, fires in ((True, True), (False, False)):
        node = exact(ops.AND, a, UOp.const(dtypes.boolean, truth))
        assert (applied(node, rules) is a) is fires
    # `and` of integers is another theory
    b = leaf("b", dtypes.i32)
    node = exact(ops.AND, b, UOp.const(dtypes.i32, 1))
    assert applied(node, rules) is node


@pytest.mark.parametrize("theory", list(Theory)[:4], ids=lambda theory: theory.value)
def test_a_rule_keeps_to_its_theory(theory: Theory) -> None:
    rules = alone(maximum(x, x), x, theory=theory)
    for dtype in (dtypes.index, dtypes.i8, dtypes.u64, dtypes.f16, dtypes.boolean):
        number = 0 if dtype.is_float or dtype is dtypes.boolean else None
        a = UOp(ops.PARAM, dtype, (), number) if number == 0 else leaf("a", dtype)
        assert (applied(exact(ops.MAX, a, a), rules) is a) is (dtype.theory is theory)


# -- vectors ---------------------------------------------------------------------------------------


def test_rules_hold_for_vectors_too() -> None:
    a = exact(ops.VECTORIZE, leaf("a"), leaf("b"))
    wide = dtypes.index.vec(2)
    rules = alone((x * c0) * c1, x * (c0 * c1))
    product = exact(ops.MUL, exact(ops.MUL, a, UOp.const(wide, 3)), UOp.const(wide, 4))
    assert applied(product, rules) is exact(ops.MUL, a, UOp.const(wide, 12))


def test_a_constant_with_different_lanes_is_no_constant_of_a_rule() -> None:
    a = exact(ops.VECTORIZE, leaf("a"), leaf("b"))
    lanes = UOp(ops.VCONST, dtypes.index.vec(2), (), (1, 2))
    node = exact(ops.MUL, a, lanes)
    assert applied(node, alone(x * c0, x)) is node


def test_a_comparison_of_vectors_makes_a_mask() -> None:
    a = exact(ops.VECTORIZE, leaf("a"), leaf("b"))
    made = applied(exact(ops.LT, a, a), alone(x < x, FALSE))
    assert made is UOp.const(dtypes.boolean.vec(2), False)


# -- guards ----------------------------------------------------------------------------------------


def test_guards_read_bounds() -> None:
    rules = alone(x % c0, x, when=(lo(x) >= 0) & (hi(x) < c0))
    for low, high, fires in ((0, 7, True), (0, 8, False), (-1, 7, False)):
        a = leaf("a", low=low, high=high)
        node = exact(ops.MOD, a, UOp.const(dtypes.index, 8))
        assert (applied(node, rules) is a) is fires


def test_guards_on_infinite_bounds() -> None:
    a = UOp.variable("free")
    eight = UOp.const(dtypes.index, 8)
    node = exact(ops.MOD, a, eight)
    assert applied(node, alone(x % c0, x, when=hi(x) < c0)) is node
    # arithmetic on an infinite bound is not done
    assert applied(node, alone(x % c0, x, when=hi(x) + 1 > c0)) is node
    assert applied(node, alone(x % c0, x, when=hi(x) > c0)) is a


def test_guards_read_residues() -> None:
    rules = alone(x % c0, remainder(x) % c0, when=divides(c0, modulus(x)))
    a = exact(ops.MUL, leaf("a"), UOp.const(dtypes.index, 8))
    shifted = exact(ops.ADD, a, UOp.const(dtypes.index, 3))
    node = exact(ops.MOD, shifted, UOp.const(dtypes.index, 4))
    assert applied(node, rules) is UOp.const(dtypes.index, 3)
    other = exact(ops.MOD, shifted, UOp.const(dtypes.index, 3))
    assert applied(other, rules) is other


def test_guards_read_types() -> None:
    of_signed = alone(x // c0, x, when=signed(x))
    largest = alone(x < c0, x <= c0 - 1, when=c0.eq(most(x)))
    for dtype in (dtypes.i8, dtypes.u8):
        a = leaf("a", dtype)
        quotient = exact(ops.IDIV, a, UOp.const(dtype, 3))
        assert (applied(quotient, of_signed) is a) is (dtype is dtypes.i8)
        limit = exact(ops.LT, a, UOp.const(dtype, int(dtype.max)))
        assert applied(limit, largest).op is ops.LE


def test_guards_tell_constants() -> None:
    rules = alone(x - y, y - x, when=constant(x) & ~constant(y))
    a, three = leaf("a"), UOp.const(dtypes.index, 3)
    assert applied(exact(ops.SUB, three, a), rules) is exact(ops.SUB, a, three)


def test_a_computation_that_is_undefined_keeps_a_rule_from_firing() -> None:
    a, zero = leaf("a"), UOp.const(dtypes.index, 0)
    node = exact(ops.MUL, exact(ops.ADD, a, UOp.const(dtypes.index, 6)), zero)
    assert applied(node, alone((x + c0) * c1, x * (c0 // c1))) is node
    assert applied(node, alone((x + c0) * c1, x, when=(c0 % c1).eq(0))) is node
    negative = exact(ops.MUL, a, UOp.const(dtypes.index, -1))
    assert applied(negative, alone(x * c0, x << (literal(1) << c0))) is negative


def test_computed_constants_wrap_to_their_type() -> None:
    a = leaf("a", dtypes.i8)
    rules = alone((x + c0) + c1, x + (c0 + c1))
    node = exact(ops.ADD, exact(ops.ADD, a, UOp.const(dtypes.i8, 100)), UOp.const(dtypes.i8, 100))
    assert applied(node, rules) is exact(ops.ADD, a, UOp.const(dtypes.i8, -56))


def test_casts_match_types() -> None:
    there = cast(x, u.dtype)
    rules = alone(cast(there, x.dtype), x, when=fits(x, there))
    a = leaf("a", dtypes.i8)
    for between, fires in ((dtypes.i16, True), (dtypes.u16, False)):
        back = UOp(ops.CAST, dtypes.i8, (UOp(ops.CAST, between, (a,)),))
        assert (applied(back, rules) is a) is fires
    elsewhere = UOp(ops.CAST, dtypes.i32, (UOp(ops.CAST, dtypes.i16, (a,)),))
    assert applied(elsewhere, rules) is elsewhere


def test_a_fact_about_a_part_of_the_left_side_in_every_order() -> None:
    part = x * c0 + y
    rules = alone(part % c1, part, when=(lo(part) >= 0) & (hi(part) < c1))
    a, b = leaf("a"), leaf("b")
    four = UOp.const(dtypes.index, 4)
    for scaled in (exact(ops.MUL, a, four), exact(ops.MUL, four, a)):
        for total in (exact(ops.ADD, scaled, b), exact(ops.ADD, b, scaled)):
            size = int(total.vmax)
            fitting, small = (UOp.const(dtypes.index, n) for n in (size + 1, size))
            assert applied(exact(ops.MOD, total, fitting), rules).op is ops.ADD
            assert applied(exact(ops.MOD, total, small), rules).op is ops.MOD


def test_a_rule_on_conditions_fires_only_on_values_of_its_theories() -> None:
    both = RuleSet(
        "both",
        theory=Theory.INTEGERS,
        rules=(rule("both-below", (x < c0) & (x < c1), x < minimum(c0, c1)),),
    )
    for dtype, fires in ((dtypes.index, True), (dtypes.f32, False), (dtypes.i8, False)):
        value = UOp(ops.PARAM, dtype, (), 0)
        limits = [UOp.const(dtype, n) for n in (3, 5)]
        before = exact(ops.AND, *(exact(ops.LT, value, limit) for limit in limits))
        assert (applied(before, both).op is ops.LT) is fires


def test_an_op_that_cannot_be_computed_on_constants_is_told() -> None:
    node = exact(ops.MUL, leaf("a"), UOp.const(dtypes.index, 3))
    with pytest.raises(RuleError, match="POW cannot be computed on constants"):
        applied(node, alone(x * c0, x + c0**2))


# -- variants --------------------------------------------------------------------------------------


def test_sorted_operands_need_fewer_variants() -> None:
    pattern = (x * c0 + y) // c1
    assert len(variants(pattern, dtypes.index.slot)) == 2
    assert len(variants(pattern, dtypes.i32.slot)) == 4
    assert len(variants(pattern, dtypes.index.slot, sorted_operands=False)) == 4
    assert len(variants(x + x, dtypes.i32.slot)) == 1


# -- the text --------------------------------------------------------------------------------------


def texts(rules: RuleSet) -> list[str]:
    """The text of every function that a set is compiled to."""
    actual = []
    compiled = Compiled(rules, construction_flavour())
    for op in ops.table():
        for slot in range(1, SLOTS):
            dispatch = compiled.dispatch(op, slot)
            if dispatch is not None and dispatch.rules:
                fitting = candidates(dispatch.rules, slot, sorted_operands=True)
                function = compile_function(op, slot, fitting, construction_flavour())
                actual.append("".join(linecache.getlines(function.__code__.co_filename)))
    return actual


def test_the_same_set_compiled_twice_gives_the_same_text() -> None:
    first, second = texts(ALGEBRA), texts(ALGEBRA)
    assert len(first) > 20
    assert first == second


def test_each_return_names_its_rule() -> None:
    rules = alone(x % c0, x, when=(lo(x) >= 0) & (hi(x) < c0))
    (text,) = set(texts(rules))
    assert text.splitlines() == [
        "def mod_construct(dtype, src, arg):",
        "    s0, s1 = src",
        "    if (s0.vmin >= 0) and (s0.vmax < s1.arg):",
        "        return s0  # case",
        "    return None",
    ]


def test_generated_functions_show_in_tracebacks() -> None:
    @procedure("stumble", (ops.NEG,))
    def stumble(node: UOp) -> UOp | None:
        """Fall."""
        raise ZeroDivisionError("over a stone")

    rules = RuleSet("clumsy", theory=INTEGERS, rules=(stumble,))
    try:
        applied(exact(ops.NEG, leaf("a")), rules)
    except ZeroDivisionError:
        shown = traceback.format_exc()
    assert "<porism rules neg pass" in shown
    assert "result = procedure_0(node)  # stumble" in shown


def test_a_choice_is_made_by_any_op_of_three() -> None:
    a, b = leaf("a"), leaf("b")
    truth = UOp(ops.PARAM, dtypes.boolean, (), 0)
    rules = alone(where(~p, x, y), where(p, y, x))
    node = exact(ops.WHERE, exact(ops.NOT, truth), a, b)
    assert applied(node, rules) is exact(ops.WHERE, truth, b, a)
