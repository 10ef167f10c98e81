"""Transcendental functions as plain arithmetic: EXP, EXPM1, TANH, EXP2, LOG2, SIN and POW.

The formulas for f32 and f64 are in `exponential_polynomials` and `sine`; narrower floats are
computed in f32.
"""

from __future__ import annotations

from collections.abc import Callable

from porism.base.dtypes import Theory, f32, f64
from porism.ir import ops
from porism.ir.node import UOp
from porism.lower.decompose import exponential_polynomials, sine
from porism.lower.decompose.decomposition_options import Machine
from porism.lower.decompose.float_arithmetic import Floats
from porism.rewrite.rule import RuleSet, procedure


def _apply(node: UOp, machine: Machine, formula: Callable[..., UOp]) -> UOp | None:
    """Return a formula applied to the sources of a float op, in f32 or f64."""
    kind = node.dtype
    if not kind.is_float:
        return None
    if (node.op.name, "f32") in machine.target.native_ops and kind.element.bits <= f32.bits:
        if kind.element is f32:
            return None
        return node.op(*[s.cast(f32.vec(kind.count)) for s in node.src]).cast(kind)
    scales = machine.has("LDEXP")
    if kind.element in (f32, f64):
        return formula(Floats(kind, machine.fused, scales), *node.src)
    wide = f32.vec(kind.count)
    sources = [s.cast(wide) for s in node.src]
    return formula(Floats(wide, machine.fused, scales), *sources).cast(kind)


@procedure("exp-polynomial", (ops.EXP,), with_context=True)
def exp(node: UOp, machine: Machine) -> UOp | None:
    """Compute e**x: the multiple of ln 2 goes into the exponent, a polynomial takes the rest."""
    return _apply(node, machine, exponential_polynomials.exp)


@procedure("expm1-polynomial", (ops.EXPM1,), with_context=True)
def expm1(node: UOp, machine: Machine) -> UOp | None:
    """Compute e**x - 1 in the same way, without cancellation near 0."""
    return _apply(node, machine, exponential_polynomials.expm1)


@procedure("tanh-polynomial", (ops.TANH,), with_context=True)
def tanh(node: UOp, machine: Machine) -> UOp | None:
    """Compute tanh(x) as a quotient of a power of two and a polynomial of the rest."""
    return _apply(node, machine, exponential_polynomials.tanh)


@procedure("exp2-polynomial", (ops.EXP2,), with_context=True)
def exp2(node: UOp, machine: Machine) -> UOp | None:
    """Compute 2**x: the integer part goes into the exponent, a polynomial takes the rest."""
    return _apply(node, machine, exponential_polynomials.exp2)


@procedure("log2-polynomial", (ops.LOG2,), with_context=True)
def log2(node: UOp, machine: Machine) -> UOp | None:
    """Compute log2(x) as the exponent plus a polynomial of the significand."""
    return _apply(node, machine, exponential_polynomials.log2)


@procedure("sin-polynomial", (ops.SIN,), with_context=True)
def sin(node: UOp, machine: Machine) -> UOp | None:
    """Compute sin(x): reduce x by multiples of pi/2, and take a polynomial of the rest."""
    return _apply(node, machine, sine.sin)


@procedure("pow-exp2-log2", (ops.POW,), with_context=True)
def power(node: UOp, machine: Machine) -> UOp | None:
    """Compute x**y of floats as 2**(y*log2(x)) in double-double arithmetic."""
    return _apply(node, machine, exponential_polynomials.power)


TRANSCENDENTAL = RuleSet(
    "transcendental", theory=Theory.FLOATS, rules=(exp, expm1, tanh, exp2, log2, sin, power)
)
