"""Arguments: why no case can make a difference to a condition that is mutated so.

A mutant that has an argument here, and that no case tells from the function, is listed as `argued`
and not as `alike` or `unreached`. One that a case does tell has another reason: its argument is
false, and a test says so.
"""

from __future__ import annotations

from typing import Final

_INDEX: Final = "rules.index."
_SIMPLIFIER: Final = "rules.index.normalize._Simplifier."
_EXTRACTION: Final = "rules.index.extraction.Writer."
_QUOTIENTS: Final = "rules.index.quotients."
_SCOPE: Final = "rules.index.scoped_facts.Scope."
_BUFFERS: Final = "rules.buffers.buffer_rules."
_DIVISION: Final = "lower.decompose.integer_division."
_SUMS: Final = "rules.reductions.closed_form_sums."
_WHOLE: Final = "rules.reductions.whole_numbers."
_INTERVALS: Final = "rules.reductions.condition_intervals."
_REDUCTIONS: Final = "rules.reductions.reduction_rules."
_SPLITTING: Final = "rules.reductions.reduction_splitting."

_GROUPS: Final[tuple[tuple[str, tuple[str, ...]], ...]] = (
    (
        "`multiplier` returns an odd m: half of an even one, with a shift of one less, satisfies "
        "the same inequality. A product that is a power of two has m = 1, and is `largest`, "
        "which the type holds.",
        (
            f"{_DIVISION}quotient: largest * m <= kind.max -> largest * m <= kind.max + 1",
            f"{_DIVISION}quotient: largest * m <= own.max -> largest * m <= own.max + 1",
            f"{_DIVISION}quotient: largest * m <= wide.max -> largest * m <= wide.max + 1",
            f"{_DIVISION}quotient: m < 1 << 64 -> m <= 1 << 64",
        ),
    ),
    (
        "The factors of 2**32 - 1 and 2**64 - 1 are few, and of no pair of them is one the "
        "multiplier of a divisor for the other, where the other has half the bits.",
        (f"{_DIVISION}quotient: largest * m <= wide.max -> largest * m < wide.max",),
    ),
    (
        "Of all pointers, only an INDEX has a source that is an index.",
        (
            "rules.addresses.validity._is_invalid_access: pointer.op is ops.INDEX and "
            "any((s.op is ops.INVALID for s in pointer.src[1:])) -> "
            "any((s.op is ops.INVALID for s in pointer.src[1:]))",
        ),
    ),
    (
        "No type has two bits.",
        (
            "rules.algebra.constant_folding._fold_lanes: dtype.bits > 1 -> dtype.bits > 1 + 1",
            "rules.algebra.constant_folding.fold: dtype.bits > 1 -> dtype.bits > 1 + 1",
        ),
    ),
    (
        "An infinity less 1 is the infinity.",
        (
            "lower.decompose.missing_ops._double_double_mulacc: "
            "size < math.inf -> size < math.inf - 1",
            "rules.reductions.reduction_rules._preserves_order: "
            "0 < factor.arg < math.inf -> 0 < factor.arg < math.inf - 1",
        ),
    ),
    (
        "A divisor of a size that is less than it is at most half of it, and no divisor that is "
        "tried is less than 8.",
        (f"{_SPLITTING}_choose_parts: size > n -> size > n + 1",),
    ),
    (
        "Without candidates the remainder is the size. It is not 0, since a long reduction has no "
        "axis without elements, and so 32 times the size is more than the size.",
        (
            f"{_SPLITTING}_choose_parts: parts and rest * REMAINDER_RATIO <= size -> "
            "rest * REMAINDER_RATIO <= size",
        ),
    ),
    (
        "Where 32 times the remainder is the size, the size is less than 2**17, since a remainder "
        "is less than 16 elements of each of 256 parts. For each of these sizes and each limit of "
        "the parts, the least remainder was computed: of none it is a 32nd part.",
        (
            f"{_SPLITTING}_choose_parts: rest * REMAINDER_RATIO <= size -> "
            "rest * REMAINDER_RATIO < size",
        ),
    ),
    (
        "The loop goes on only where the products differ.",
        (
            f"{_SPLITTING}_varying_after_reshape: left < right -> left <= right",
            f"{_SPLITTING}_varying_after_reshape: right < left -> right <= left",
        ),
    ),
    (
        "The procedure asks for masked indices only of an element that has indices.",
        (
            "schedule.rangeify.movement_indices.Element.masked_indices: "
            "self.valid is None or not self.indices -> self.valid is None",
        ),
    ),
    (
        "The second is computed only where the first is not None, and is None elsewhere.",
        (
            f"{_SUMS}_ClosedForm.sum: first is None or second is None -> second is None",
            f"{_SUMS}_ClosedForm._select: first is None or second is None -> second is None",
            f"{_SUMS}_ClosedForm._select: first is None or second is None -> second is None #2",
            f"{_SUMS}_ClosedForm._split: first is None or second is None -> second is None",
            f"{_SUMS}_ClosedForm._split: equal is None or whole is None -> whole is None",
            f"{_SUMS}_ClosedForm.any_iteration: first is None or second is None -> second is None",
            f"{_WHOLE}whole_number: yes is None or no is None -> no is None",
            f"{_WHOLE}whole_number: first is None or second is None -> second is None",
            f"{_SUMS}closed_form_float_sum: whole is None or unit is None or (not holds_sum("
            "value.dtype, whole, trip_count)) -> whole is None or not holds_sum("
            "value.dtype, whole, trip_count)",
        ),
    ),
    (
        "A sum of integers is computed from sums of integers: a float is a source of none of the "
        "ops that are followed but a CAST, whose sources are integers or booleans.",
        (
            f"{_SUMS}_ClosedForm._cast: not inner.dtype.is_integer or (dtype.is_float and "
            "(not self.as_reals)) -> not inner.dtype.is_integer",
        ),
    ),
    (
        "A span has no point: the sum over one iteration is a term, and starts no other sum. So "
        "a point comes from a clause, which is remembered with it.",
        (f"{_SUMS}_ClosedForm._at_point: parts.solution is None -> False",),
    ),
    (
        "An inequality of two numbers, `!=`, is never solved for a range.",
        (
            f"{_SUMS}_ClosedForm.any_iteration: len(parts.varying) == 1 and parts.unsolved and "
            "(condition.op is ops.NE) -> len(parts.varying) == 1 and condition.op is ops.NE",
        ),
    ),
    (
        "The types of integers have 8, 16, 32 and 64 bits.",
        (f"{_SUMS}_may_exceed: a.bits > b.bits -> a.bits > b.bits + 1",),
    ),
    (
        "A limit of the work, not of what is right: beyond it the result is right as well.",
        (
            f"{_REDUCTIONS}_power: exponent.op is not ops.CONST or exponent.arg.bit_length() * 2 "
            "> MOST_MULTIPLICATIONS -> exponent.op is not ops.CONST",
            f"{_SCOPE}_improved: low >= high or self.budget.eliminations <= 0 -> low >= high",
            f"{_SCOPE}_improved: self.budget.eliminations <= 0 -> self.budget.eliminations < 0",
            f"{_SCOPE}_improved: self.budget.eliminations <= 0 -> "
            "self.budget.eliminations <= 0 + 1",
        ),
    ),
    (
        "No type of floats has 31 bits.",
        (
            "rules.reductions.selected_terms._largest_finite: "
            "dtype.bits >= 32 -> dtype.bits >= 32 - 1",
        ),
    ),
    (
        "A clause that is solved depends on the range, and so one of its sides does; it still "
        "does after a term without the range was moved.",
        (
            f"{_INTERVALS}_isolate: r in a.ranges and r not in b.ranges and (a.op in "
            "(ops.ADD, ops.SUB, ops.NEG)) -> r not in b.ranges and a.op in "
            "(ops.ADD, ops.SUB, ops.NEG)",
        ),
    ),
    (
        "A multiple whose factor is 0 has no atom, and is not solved. Where the sign of a factor "
        "is asked for by `_solve_equal`, it is not 1 either.",
        (
            f"{_INTERVALS}_solve_below: factor > 0 -> factor >= 0",
            f"{_INTERVALS}_solve_equal: factor > 0 -> factor >= 0",
            f"{_INTERVALS}_solve_equal: factor > 0 -> factor > 0 + 1",
        ),
    ),
    (
        "Whether a quotient is below a bound is solved or not by its numerator alone, whatever the "
        "bound and the sign are: both ends are None, or none is.",
        (
            f"{_INTERVALS}_solve_equal: low is None or high is None -> high is None",
            f"{_INTERVALS}_solve_equal: low is None or high is None -> low is None",
        ),
    ),
    (
        "The limits of the type index are infinite.",
        (
            f"{_INTERVALS}_cannot_wrap: node.dtype is index or (node.dtype.min <= low and "
            "high <= node.dtype.max) -> node.dtype.min <= low and high <= node.dtype.max",
        ),
    ),
    (
        "Twice a number is not 65.",
        (
            f"{_REDUCTIONS}_power: exponent.arg.bit_length() * 2 > MOST_MULTIPLICATIONS -> "
            "exponent.arg.bit_length() * 2 > MOST_MULTIPLICATIONS + 1",
        ),
    ),
    (
        "Of all nodes, only a REDUCE has an op as its argument.",
        (
            f"{_REDUCTIONS}reduce_nested: inner.op is not ops.REDUCE or inner.arg is not node.arg "
            "-> inner.arg is not node.arg",
            f"{_REDUCTIONS}_merge_nested: inner.op is not ops.REDUCE or inner.arg is not node.arg "
            "or (not outer) -> inner.arg is not node.arg or not outer",
        ),
    ),
    (
        "A range is among its own ranges.",
        (
            f"{_REDUCTIONS}_merge_nested: s in outer or any((r in s.ranges for r in outer)) -> "
            "any((r in s.ranges for r in outer))",
        ),
    ),
    (
        "ADD and SUB work on numbers, and not on booleans.",
        (
            f"{_REDUCTIONS}reduce_distribute: value.dtype.kind is Kind.BOOL or len(ranges) != 1 "
            "or (not _has_iterations(ranges[0])) -> len(ranges) != 1 or "
            "not _has_iterations(ranges[0])",
        ),
    ),
    (
        "A form has no term with the factor 0, and a sum no part with it; a constant is compared "
        "with 0 where it is not 0.",
        (
            f"{_INDEX}conditions._remove_floor: k > 0 -> k >= 0",
            f"{_INDEX}conditions._remove_floor: k > 0 -> k >= 0 #2",
            f"{_EXTRACTION}_sides: k > 0 -> k >= 0",
            f"{_EXTRACTION}_sides: p[1] > 0 -> p[1] >= 0",
            f"{_EXTRACTION}_sides: k < 0 -> k <= 0",
            f"{_EXTRACTION}_sides: k < 0 -> k <= 0 #2",
            f"{_EXTRACTION}_sum: p[1] > 0 -> p[1] >= 0",
            f"{_EXTRACTION}_sum: p[1] < 0 -> p[1] <= 0",
            f"{_EXTRACTION}_sum: times > 0 -> times >= 0",
            f"{_EXTRACTION}_sum: constant > 0 -> constant >= 0",
            f"{_SCOPE}_plain: k > 0 -> k >= 0",
            f"{_INDEX}scoped_facts._narrowed: k > 0 -> k >= 0",
        ),
    ),
    (
        "A quotient has a divisor of 2 or more and a factor that is not 0, and so its slack is "
        "not 0.",
        (f"{_SCOPE}_eliminate: slack > 0 -> slack >= 0",),
    ),
    (
        "The divisor divides the number: it is a divisor of it by choice, or the greatest common "
        "divisor of numbers among which it is.",
        (
            f"{_QUOTIENTS}_divide_proper: d // common -> -(-d // common)",
            f"{_QUOTIENTS}_divide_proper: k // common -> -(-k // common)",
            f"{_QUOTIENTS}_divide_proper: k // common -> -(-k // common) #2",
            f"{_QUOTIENTS}_drop_lower_part: d // g -> -(-d // g)",
            f"{_QUOTIENTS}_divide_exactly: "
            "a.constant // common_factor -> -(-a.constant // common_factor)",
            f"{_QUOTIENTS}_divide_exactly: k // common_factor -> -(-k // common_factor)",
            f"{_QUOTIENTS}_divide_exactly: k // common_factor -> -(-k // common_factor) #2",
        ),
    ),
    (
        "The floor quotient of an infinite bound is NaN, which equals nothing.",
        (
            f"{_QUOTIENTS}_floor_divide: low != -inf and high != inf and "
            "(low // d == high // d) -> high != inf and low // d == high // d",
            f"{_QUOTIENTS}_floor_divide: low != -inf and high != inf and "
            "(low // d == high // d) -> low != -inf and low // d == high // d",
        ),
    ),
    (
        "Twice the largest coefficient is more than each divisor that is tried, but d: so it has "
        "a multiple of the divisor nearest to it that is not 0.",
        (f"{_QUOTIENTS}_remainder: width >= g or (g != d and (not above)) -> width >= g",),
    ),
    (
        "A division by the constant 0 is opaque, and a divisor without its common factors is not "
        "0 if it was not before.",
        (
            f"{_QUOTIENTS}divide_by_form: "
            "divisor.is_constant and divisor.constant -> divisor.is_constant",
            f"{_QUOTIENTS}divide_by_form: divisor.constant > 0 -> divisor.constant >= 0",
        ),
    ),
    (
        "Trial points at which the facts hold have values of the form, and these are within its "
        "interval.",
        (
            f"{_SCOPE}at_least: all((v >= limit for v in self._values(a))) and "
            "self.interval(a)[0] >= limit -> self.interval(a)[0] >= limit",
            f"{_SCOPE}at_most: all((v <= limit for v in self._values(a))) and "
            "self.interval(a)[1] <= limit -> self.interval(a)[1] <= limit",
        ),
    ),
    (
        "Nothing is in an empty table, and nothing is shared with no leaves.",
        (
            f"{_SCOPE}_plain: narrowed and m in narrowed -> m in narrowed",
            f"{_SCOPE}is_plain: not shared or "
            "not any((m.divisor and m.support & shared for m in terms)) -> "
            "not any((m.divisor and m.support & shared for m in terms))",
        ),
    ),
    (
        "One fact is used at once, and two quotients are eliminated, one after the other.",
        (
            f"{_SCOPE}_by_fact: depth > 1 or facts > 1 -> depth > 1",
            f"{_SCOPE}_by_fact: facts > 1 -> facts > 1 + 1",
            f"{_SCOPE}_by_fact: max(depth - 1, 1) -> min(depth - 1, 1)",
        ),
    ),
    (
        "Of an interval that does not contain 0, the upper end is not 0 if the lower is positive.",
        (f"{_INDEX}conditions._simplify_equation: high < 0 -> high <= 0 #2",),
    ),
    (
        "The coefficient whose size is tried has a multiple of it. If all others had one too, the "
        "inequality would have been divided by their greatest common divisor.",
        (
            f"{_INDEX}conditions._drop_remainder: above and below -> True",
            f"{_INDEX}conditions._drop_remainder: above and below -> below",
        ),
    ),
    (
        "Only a quotient has a divisor, and it has a numerator.",
        (f"{_EXTRACTION}_remainder: numerator is None or divisor is None -> divisor is None",),
    ),
    (
        "If something is left, the product is not contained in the terms: its own monomial is not.",
        (
            f"{_EXTRACTION}_remainder: left or not _contains(terms, whole, times) or "
            "(not _contains(terms, product, -times)) -> "
            "not _contains(terms, whole, times) or not _contains(terms, product, -times)",
        ),
    ),
    (
        "What has operands, and is no division, choice, shift or sum, is a product.",
        (
            f"{_INDEX}nodes_to_forms.Reader._form: op is ops.MUL and (not _addends(node)) -> "
            "not _addends(node)",
        ),
    ),
    (
        "A result without sources costs nothing, and no expression costs less.",
        (
            f"{_INDEX}normalize.simplify: make is None and result.src and "
            "(not _costs_at_least(root, cost(result))) -> "
            "make is None and (not _costs_at_least(root, cost(result)))",
        ),
    ),
    (
        "Elementwise ops have sources; of those whose result is an index, only a WHERE has one of "
        "another type.",
        (
            f"{_SIMPLIFIER}opaque: node.op.elementwise and node.src and "
            "all((s.dtype is dtypes.index for s in node.src)) -> "
            "node.op.elementwise and all((s.dtype is dtypes.index for s in node.src))",
            f"{_SIMPLIFIER}opaque: all((s.dtype is dtypes.index for s in node.src)) -> "
            "any((s.dtype is dtypes.index for s in node.src))",
        ),
    ),
    (
        "The condition of a WHERE of one lane has one lane, and so have the parts of a condition "
        "that has; parts of an AND or OR on booleans are booleans.",
        (
            f"{_SIMPLIFIER}_choice: test.dtype is not dtypes.boolean -> False",
            f"{_SIMPLIFIER}_logic: self.depth >= DEEPEST or node.dtype is not dtypes.boolean -> "
            "self.depth >= DEEPEST",
            f"{_INDEX}normalize.parts_of: part.op is op and part.dtype.kind is Kind.BOOL -> "
            "part.op is op",
        ),
    ),
    (
        "Of conditions, only a constant has a truth value as its argument.",
        (
            f"{_SIMPLIFIER}_together: part.op is ops.CONST and part.arg is decided -> "
            "part.arg is decided",
        ),
    ),
    (
        "An element of a constant, or of a buffer of a constant, has the type of the constant.",
        (
            f"{_BUFFERS}constant_element: value.op is not ops.CONST or access.dtype is not "
            "value.dtype -> value.op is not ops.CONST",
        ),
    ),
    (
        "Of all nodes, only a BUFFERIZE has an address space as its argument.",
        (
            f"{_BUFFERS}_in_kernel: node.op is ops.BUFFERIZE and node.arg in KERNEL_SPACES -> "
            "node.arg in KERNEL_SPACES",
        ),
    ),
    (
        "The procedure asks for the value that is forwarded only of a read of a buffer.",
        (
            f"{_BUFFERS}forwarded_value: base.op is not ops.BUFFERIZE or "
            "tuple(indices) != base.src[1:] -> tuple(indices) != base.src[1:]",
        ),
    ),
)

ARGUMENTS: Final = {name: argument for argument, names in _GROUPS for name in names}
"""The argument for each mutant that has one, by its name."""
