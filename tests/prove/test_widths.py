"""Rules hold in every type in which they can fire; those wrong in one are refused there."""

from __future__ import annotations

import math

import pytest

from porism.base import dtypes
from porism.base.dtypes import DType
from porism.ir import ops
from porism.ir.node import UOp
from porism.prove.rule_proof import Status, prove
from porism.prove.type_instances import TYPES, instances
from porism.rewrite.graph_rewrite import rewrite
from porism.rewrite.rule import Rule, RuleSet, rule
from porism.rewrite.terms import FALSE, c0, hi, literal, lo, maximum, most, where, x, y
from porism.rules.rule_sets import EVERYTHING
from tests.prove.stated import FIXED_WIDTH, FLOATS, stated

WIDTHS = (8, 16, 32, 64)
WORDS = [t.name for t in TYPES[FIXED_WIDTH]]
FLOAT_TYPES = [t.name for t in TYPES[FLOATS]]


def fires_on(item: Rule, theory: dtypes.Theory) -> list[str]:
    """The types in which a rule is asked about."""
    return [instance.label for instance in instances(item, theory)]


def test_a_proof_is_one_for_every_type_of_the_theory() -> None:
    assert sorted(WORDS) == sorted(f"{sign}{bits}" for sign in "iu" for bits in WIDTHS)
    assert set(FLOAT_TYPES) == {"f16", "bf16", "f32", "f64", "fp8e4m3", "fp8e5m2"}
    (result,) = prove(stated(FIXED_WIDTH, x + 0, x)).results
    assert result.types.split() == WORDS
    (result,) = prove(stated(FLOATS, x * 1.0, x)).results
    assert result.types.split() == FLOAT_TYPES


LESS_THAN_PROVED_AT_32_BITS = (
    "mod-again", "word-div-multiple", "word-div-product", "word-lt-offset", "word-lt-quotient",
    "word-ge-quotient",
)  # fmt: skip


@pytest.mark.parametrize("name", LESS_THAN_PROVED_AT_32_BITS)
def test_divisions_of_long_words_are_proved(name: str) -> None:
    """Bit by bit the solver does not answer these."""
    item = EVERYTHING[name]
    assert isinstance(item, Rule)
    proof = prove(item)
    assert proof.ok, proof.explain()
    assert proof.results[-1].types.split() == WORDS


# -- wrong at one width ----------------------------------------------------------------------------


def refuted_at(item: Rule) -> str:
    """The type in which a rule is refuted, with a counterexample."""
    (result,) = prove(item).results
    assert result.status is Status.REFUTED, result
    assert ": before is " in result.counterexample
    return result.types


@pytest.mark.parametrize("bits", WIDTHS[:-1])
def test_a_mask_of_one_width_is_no_mask_of_a_longer_one(bits: int) -> None:
    wrong = stated(FIXED_WIDTH, x & ((1 << bits) - 1), x)
    assert refuted_at(wrong) == f"i{2 * bits}"
    guarded = stated(FIXED_WIDTH, x & ((1 << bits) - 1), x, most(x).eq(literal((1 << bits) - 1)))
    (result,) = prove(guarded).results
    assert (result.status, result.types) == (Status.PROVED, f"u{bits}")


def test_a_mask_of_64_bits_fires_in_one_type_and_holds_there() -> None:
    (result,) = prove(stated(FIXED_WIDTH, x & ((1 << 64) - 1), x)).results
    assert (result.status, result.types) == (Status.PROVED, "u64")


@pytest.mark.parametrize("bits", WIDTHS[:-1])
def test_what_shifts_all_bits_out_of_one_width_does_not_of_a_longer_one(bits: int) -> None:
    assert refuted_at(stated(FIXED_WIDTH, x >> bits, x >> (2 * bits - 1))) == f"i{2 * bits}"
    assert refuted_at(stated(FIXED_WIDTH, x << bits, x & 0)) == f"i{2 * bits}"


@pytest.mark.parametrize("bits", WIDTHS)
def test_factors_are_not_cut_to_a_width(bits: int) -> None:
    """x * (c0 % 2**bits) is x * c0 up to that width."""
    cut = stated(FIXED_WIDTH, x * c0, x * (c0 % (1 << bits)))
    if bits < WIDTHS[-1]:
        assert refuted_at(cut) == f"i{2 * bits}"
    else:
        assert prove(cut).results[0].status is Status.PROVED


@pytest.mark.parametrize("bits", WIDTHS)
@pytest.mark.parametrize("sign", "iu")
def test_a_limit_of_one_type_is_none_of_a_longer_one(sign: str, bits: int) -> None:
    largest = int(dtypes.dtype(f"{sign}{bits}").max)
    item = stated(FIXED_WIDTH, x > largest, FALSE)
    if bits < WIDTHS[-1]:
        refuted_at(item)
    else:
        assert prove(item).results[0].status is (Status.PROVED if sign == "u" else Status.REFUTED)


@pytest.mark.parametrize("bits", WIDTHS)
def test_an_overflow_that_is_guarded_for_one_width_is_found_in_a_shorter_one(bits: int) -> None:
    """Half of the limit times two: wrong in every width below the one it is stated for."""
    half = literal((1 << (bits - 2)) - 1)
    wrong = stated(FIXED_WIDTH, (x * 2) // 2, x, (lo(x) >= 0) & (hi(x) <= half))
    if bits > WIDTHS[0]:
        assert refuted_at(wrong) == "i8"
    else:
        assert prove(wrong).results[0].status is Status.PROVED


@pytest.mark.parametrize(
    ("tiny", "narrowest"), [(2.0**-20, "f16"), (2.0**-100, "bf16"), (2.0**-140, "f32")]
)
def test_what_is_nothing_in_one_float_type_is_something_in_a_longer_one(
    tiny: float, narrowest: str
) -> None:
    assert refuted_at(stated(FLOATS, x * tiny, x * 0.0)) == narrowest


def test_constants_that_only_f64_has() -> None:
    assert refuted_at(stated(FLOATS, x * 1e-60, x * 0.0)) == "f64"
    assert refuted_at(stated(FLOATS, x < 1e60, x < math.inf)) == "f64"


def test_the_eight_bit_floats_are_asked_about() -> None:
    """In both of them 17 is rounded to 16, in no other."""
    (result,) = prove(stated(FLOATS, maximum(x, y), maximum(y, x))).results
    assert {"fp8e4m3", "fp8e5m2"} <= set(result.types.split())
    chosen = where(x.eq(x), literal(16.0), literal(17.0))
    assert refuted_at(stated(FLOATS, x.eq(x), chosen < literal(17.0))) == "fp8e4m3"
    assert refuted_at(stated(FLOATS, x + 0.125 + 1.0, x + 1.125)) == "f16"


# -- literals --------------------------------------------------------------------------------------

LITERALS: list[tuple[float, dtypes.Theory, set[str]]] = [
    (-1, FIXED_WIDTH, {"i8", "i16", "i32", "i64"}),
    (200, FIXED_WIDTH, set(WORDS) - {"i8"}),
    (1 << 40, FIXED_WIDTH, {"i64", "u64"}),
    (1 << 64, FIXED_WIDTH, set()),
    (1 << 63, FIXED_WIDTH, {"u64"}),
    (0.1, FLOATS, {"f64"}),
    (0.5, FLOATS, set(FLOAT_TYPES)),
    (math.inf, FLOATS, set(FLOAT_TYPES) - {"fp8e4m3"}),
    (math.nan, FLOATS, set()),
    (448.0, FLOATS, set(FLOAT_TYPES)),
    (65536.0, FLOATS, {"bf16", "f32", "f64"}),
]


@pytest.mark.parametrize(("value", "theory", "types"), LITERALS)
def test_a_rule_is_asked_about_where_it_fires_and_nowhere_else(
    value: float, theory: dtypes.Theory, types: set[str]
) -> None:
    """The prover and the generated code agree on which types have a literal."""
    item = rule("case", maximum(x, literal(value)), y_of(value))
    rules = RuleSet("case", theory=theory, rules=(item,))
    assert set(fires_on(rules.rules[0], theory)) == types  # type: ignore[arg-type]
    for dtype in TYPES[theory]:
        node = UOp(ops.PARAM, dtype, (), 0)
        graph = UOp(ops.MAX, None, (node, constant(dtype, value)))
        fired = rewrite(graph, rules, exactly=True) is not graph
        assert fired is (dtype.name in types), dtype


def y_of(value: float) -> UOp:
    """Something else than max(x, value)."""
    return x + literal(type(value)(0))


def constant(dtype: DType, value: float) -> UOp:
    """The constant of a type that is made of a number: wrapped, or rounded."""
    return UOp.const(dtype, value)


def test_a_literal_that_no_type_has_never_fires() -> None:
    (result,) = prove(stated(FIXED_WIDTH, x & (1 << 64), x & 0)).results
    assert result.status is Status.UNKNOWN
    assert "all literals of the left side" in result.note


def test_a_literal_on_the_right_wraps_as_the_constant_does() -> None:
    (result,) = prove(stated(FIXED_WIDTH, ops.NOT(x), x ^ literal(-1))).results
    assert (result.status, result.types.split()) == (Status.PROVED, WORDS)
    assert refuted_at(stated(FIXED_WIDTH, x * 0, literal(256))) == "i16"
