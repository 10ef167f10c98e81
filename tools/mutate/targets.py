"""Targets: which functions are mutated, and which checks must notice.

A procedure is its function and whatever that calls in the same layers; its check is the one that
establishes it in the catalogue. A function that several procedures call is tried by the checks of
all of them, the quickest first.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from types import CodeType, FunctionType
from typing import Any, Final, Protocol

from porism.ir.node import UOp
from porism.ir.traversal import toposort
from porism.prove import lemma_instances, procedure_checks
from porism.prove.procedure_trials import Case, alone, applied, cases_of, fault_in
from porism.prove.random_index_expressions import random_expressions
from porism.rewrite.rule import Procedure, Rewrite
from porism.rules.index.normalize import derive, simplify
from porism.rules.reductions.reduction_splitting import varying_axes
from tests.examples import long_reduction_examples, lowering_examples
from tests.examples.catalogue_examples import EXAMPLES
from tests.examples.index_edge_examples import (
    edge_expressions,
    simplification_faults,
    simplified,
    unchanged_expressions,
)
from tools.mutate import arithmetic, conditions
from tools.mutate.called_functions import Calls, callers
from tools.mutate.derivation_keys import Keys
from tools.mutate.mutants import Mutant, functions_in, mutants_of, reached
from tools.mutate.run import Check, Results

LAYERS: Final = ("porism.rules.", "porism.schedule.", "porism.lower.", "porism.optimize.")
NORMAL_FORM: Final = "porism.rules.index."


@dataclass(frozen=True, slots=True)
class Target:
    """A mutant, and the checks that are to notice it, the quickest first."""

    mutant: Mutant
    using: tuple[Procedure, ...]
    """The procedures that may call the function."""
    checks: tuple[tuple[str, Check], ...]

    def results(self) -> Results:
        """What the procedures make of each node that they are tried on."""
        return _results(self.using, self.mutant.original)

    @property
    def names(self) -> tuple[str, ...]:
        """What a word on the command line may be a part of."""
        return self.mutant.name, *(item.name for item in self.using)


def _is_rewriting(module: str) -> bool:
    return module.startswith(LAYERS) and not module.startswith(NORMAL_FORM)


def _roots(item: Procedure) -> list[FunctionType]:
    found = [inspect.unwrap(item.function), item.only]
    return [f for f in found if isinstance(f, FunctionType)]


def _first(faults: Callable[[], Iterator[str]]) -> str:
    return next(filter(None, faults()), "")


_FACTS: Final[dict[str, tuple[Callable[..., Any], Check]]] = {
    "varying-axes": (varying_axes, partial(_first, long_reduction_examples.varying_axis_faults)),
}
"""Functions that are right or wrong by themselves, whatever a procedure makes of their results."""


def procedure_targets(known: Iterable[Rewrite]) -> Iterator[Target]:
    """The mutants of all procedures of the catalogue, by function."""
    users: dict[FunctionType, list[Procedure]] = {}
    facts = {
        function: (name, check)
        for name, (root, check) in _FACTS.items()
        for function in reached(functions_in(root, _is_rewriting), _is_rewriting)
    }
    for item in known:
        if isinstance(item, Procedure) and item.ops:  # a pass has none
            for function in reached(_roots(item), _is_rewriting):
                users.setdefault(function, []).append(item)
    for function, using in users.items():
        code = function.__code__
        checks: list[tuple[str, Check]] = [facts[function]] if function in facts else []
        checks += [(item.name, partial(_fault, item, code)) for item in using]
        for mutant in mutants_of(function, [conditions.changes]):
            yield Target(mutant, tuple(using), tuple(checks))


# -- the normal form -------------------------------------------------------------------------------

EXPRESSIONS: Final = 1600
"""On how many expressions the steps of the normal form are checked."""

_PARTS: Final = [
    "form_arena",
    "conditions",
    "extraction",
    "linear_form",
    "quotients",
    "nodes_to_forms",
    "scoped_facts",
    "normalize",
]
MODULES: Final = tuple(import_module(NORMAL_FORM + part) for part in _PARTS)
"""The normal form; its trial points only ever say no, so that they make nothing wrong."""


CHOOSING: Final = frozenset({
    "quotients._candidates", "quotients._flipped", "quotients.divisors", "conditions.floors_in",
    "extraction.count_uses", "extraction.Writer._absorbs_constant",
    "nodes_to_forms._is_large_product",
    "normalize._cost", "normalize._costs_at_least", "normalize.division_count", "normalize.cost",
    "normalize._Simplifier.record", "scoped_facts.Scope._live", "scoped_facts.Scope._values",
    "scoped_facts.Scope._straddles", "scoped_facts.Scope.note", "scoped_facts._shared",
    "form_arena.Arena._rank", "form_arena.Arena._support_of",
})  # fmt: skip
"""What only chooses which step is tried, or which of two right results is kept."""


def _is_own(module: str) -> bool:
    return any(module == each.__name__ for each in MODULES)


def normal_form_targets() -> Iterator[Target]:
    """The mutants of all steps of the normal form: conditions, and how each uses its lemma."""
    kinds = [conditions.changes, arithmetic.changes]
    start = [f for module in MODULES for f in functions_in(list(vars(module).values()), _is_own)]
    for function in reached(start, _is_own):
        if f"{function.__module__}.{function.__qualname__}".removeprefix(NORMAL_FORM) in CHOOSING:
            continue
        check = partial(_lemma_fault, function.__code__)
        for mutant in mutants_of(function, kinds):
            if "budget.steps" not in mutant.name:  # whether steps are asked for
                yield Target(mutant, (), (("lemmas", check),))


class Derivations:
    """The derivations of random expressions, each known to be right.

    A mutant that takes the same steps needs no check of them.
    """

    def __init__(self) -> None:
        self.keys = Keys()
        self.right: dict[tuple[UOp, tuple[UOp, ...]], Hashable] = {}
        edges = [(root, tuple(facts)) for root, facts in edge_expressions()]
        cases = [(root, tuple(facts)) for root, facts in random_expressions(EXPRESSIONS)]
        cases += edges
        for case in cases:
            done = derive(*case)
            faults = list(lemma_instances.step_faults(done))
            assert not faults, faults[0]
            self.right[case] = self.keys.of(done)
        self.calling = callers(cases, lambda case: derive(*case))
        self.whole = {case: simplified(*case) for case in edges}
        self.simplifying = callers(edges, lambda case: simplified(*case))

    def fault(self, code: CodeType) -> str:
        """The first step that is wrong, of the expressions that call a function."""
        for case in self.calling.get(code, ()):
            done = derive(*case)
            if self.keys.of(done) != self.right[case]:
                for fault in lemma_instances.step_faults(done):
                    return f"{case[0]!r}: {fault}"
        for case in self.simplifying.get(code, ()):
            new = simplified(*case)
            if new != self.whole[case]:
                for fault in simplification_faults(*case, new):
                    return fault
        for root in unchanged_expressions():
            if simplify(root) is not root:
                return f"{root!r} is of another type, and is simplified"
        return ""


_derivations: list[Derivations] = []


def _lemma_fault(code: CodeType) -> str:
    return _derivations[0].fault(code)


# -- the cases of a procedure ----------------------------------------------------------------------


class Suite(Protocol):
    """The cases of a procedure."""

    def fault(self, code: CodeType) -> str:
        """The first case that comes out wrong, of those that call a function."""
        ...

    def results(self, code: CodeType) -> dict[Hashable, UOp | None]:
        """What the procedure makes of whatever it is given, where it calls a function."""
        ...


class EvaluatedGraphs:
    """The cases of a procedure, and what it makes of each: known to be right.

    A mutant that makes the same graph of a case needs no evaluation.
    """

    def __init__(self, item: Procedure) -> None:
        self.item = item
        self.rules = alone(item)
        cases = list(cases_of(item, EXAMPLES.graphs[item.name]()))
        self.right: dict[UOp, UOp] = {}
        graphs = {case.graph: case for case in cases}
        called = callers(graphs.values(), self._apply)
        nodes = {n: None for g in graphs for n in toposort(g) if n.op in item.ops}
        self.nodes = callers(nodes, self._applied)
        """The nodes that are given to the procedure, by the code of the functions it calls."""
        self.calling: Calls[Case] = {}
        for code, some in called.items():
            chosen = {case.graph for case in some}
            self.calling[code] = [case for case in cases if case.graph in chosen]

    def _apply(self, case: Case) -> None:
        self.right[case.graph] = applied(self.rules, case)

    def fault(self, code: CodeType) -> str:
        """The first case that comes out wrong, of those that call a function."""
        found: dict[UOp, UOp] = {}
        rules = alone(self.item)  # compiled anew, as the function may be the filter of signatures
        for case in self.calling.get(code, ()):
            graph = case.graph
            after = found.get(graph)
            if after is None:
                after = found[graph] = applied(rules, case)
            if after is not self.right[graph] and after is not graph:
                fault = fault_in(case, after, as_reals=bool(self.item.fast_math))
                if fault:
                    return fault
        return ""

    def results(self, code: CodeType) -> dict[Hashable, UOp | None]:
        """What the procedure makes of each node of its cases for which it calls a function."""
        return {node: self._applied(node) for node in self.nodes.get(code, ())}

    def _applied(self, node: UOp) -> UOp | None:
        item = self.item
        given = (node.op, node.dtype, node.src, node.arg) if item.on_sources else (node,)
        try:
            return item.function(*given)
        except Exception:
            return None


class LoweredGraphs:
    """The cases of a procedure of the lowering, on each machine, and what it makes of each."""

    def __init__(self, item: Procedure) -> None:
        self.rules = alone(item)
        self.right: dict[lowering_examples.Case, UOp] = {}
        self.calling = callers(lowering_examples.tried(item.name), self._apply)

    def _apply(self, case: lowering_examples.Case) -> None:
        self.right[case] = case.rewritten(self.rules)

    def fault(self, code: CodeType) -> str:
        """The first case that comes out wrong, of those that call a function."""
        for case in self.calling.get(code, ()):
            after = case.rewritten(self.rules)
            if after is not self.right[case] and after is not case.before:
                fault = case.fault(after)
                if fault:
                    return fault
        return ""

    def results(self, code: CodeType) -> dict[Hashable, UOp | None]:
        """What the procedure makes of each case in which it calls a function."""
        afters = {case: case.rewritten(self.rules) for case in self.calling.get(code, ())}
        return {case: None if new is case.before else new for case, new in afters.items()}


_suites: dict[str, Suite] = {}


def _has_suite(item: Procedure) -> bool:
    return item.name in EXAMPLES.graphs or item.name in lowering_examples.EXAMPLES


def _fault(item: Procedure, code: CodeType) -> str:
    if not _has_suite(item):
        return procedure_checks.check(item, EXAMPLES).fault
    return _suites[item.name].fault(code)


def _results(using: Sequence[Procedure], code: CodeType) -> Results:
    """What some procedures make of each node of their cases."""
    return {
        (item.name, node): result
        for item in using
        if item.name in _suites
        for node, result in _suites[item.name].results(code).items()
    }


def prepare(targets: Iterable[Target]) -> None:
    """Compute what the procedures of some targets make of their cases, or the normal form."""
    for target in targets:
        if not target.using and not _derivations:
            _derivations.append(Derivations())
        for item in target.using:
            if _has_suite(item) and item.name not in _suites:
                kind = EvaluatedGraphs if item.name in EXAMPLES.graphs else LoweredGraphs
                _suites[item.name] = kind(item)


def chosen(targets: Sequence[Target], words: Sequence[str]) -> list[Target]:
    """The targets of which the mutant's or a procedure's name contains one of the words."""
    if not words:
        return list(targets)
    return [t for t in targets if any(w in name for w in words for name in t.names)]
