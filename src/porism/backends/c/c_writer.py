"""C writer: the statements of a kernel, and the expression of each value.

The text of a value is a name, or an expression that is inlined where it is used. For a splat, a
vector whose lanes are equal, it is the text of one lane. A vector of conditions is a mask of
integers, -1 where the condition holds and 0 elsewhere, as vector comparisons return it.
"""

from __future__ import annotations

import bisect
import math
import re
from collections.abc import Sequence
from typing import Final

from porism.backends.c.c_access import access_of
from porism.backends.c.c_dialect import Dialect, is_held_as_bits, vector_lanes
from porism.backends.c.c_names import Names
from porism.backends.c.c_scalars import Scalars
from porism.backends.c.value_uses import blocks, live_nodes, users
from porism.backends.kernel_function import parameters, prefetch_distances
from porism.base import dtypes
from porism.base.dtypes import DType, boolean
from porism.ir import ops
from porism.ir.axis import Axis
from porism.ir.node import UOp

MAX_INLINE_CHARACTERS: Final = 60
"""The most characters of an expression that is inlined where it is used; chosen by hand."""


class TranslationUnit:
    """One C file: the types and helper functions that its kernels need."""

    def __init__(self, dialect: Dialect) -> None:
        self.dialect = dialect
        self.types: dict[str, str] = {}
        self.scalars = Scalars(dialect)

    def head(self) -> str:
        includes = "".join(f"#include <{name}>\n" for name in self.dialect.headers)
        types = "".join(f"{line}\n" for line in self.types.values())
        parts = [includes, self.dialect.prelude, types, *self.scalars.functions.values()]
        return "\n".join(part for part in parts if part)

    def vector(self, lane: DType, count: int) -> str:
        """Return the name of a vector type, and define it once."""
        name = f"{lane.name}x{count}"
        if name not in self.types:
            size = lane.bits // 8
            kind = self.dialect.scalar(lane)
            self.types[name] = self.dialect.vector(name, kind, size, vector_lanes(count))
        return name

    def view(self, lane: DType) -> str:
        name = f"any_{lane.name}"
        self.types.setdefault(name, self.dialect.view(name, self.dialect.memory_type(lane)))
        return name


class Writer:
    """Collects the body of a function, and the text of each value."""

    def __init__(
        self,
        unit: TranslationUnit,
        name: str,
        instructions: Sequence[UOp],
        *,
        hidden: bool = False,
        alias: bool = False,
    ) -> None:
        self.unit = unit
        self.dialect = unit.dialect
        self.scalars = unit.scalars
        self.name = name
        self.instructions = instructions
        self.hidden = hidden
        self.alias = alias
        self.buffers, self.variables = parameters(instructions)
        self.prefetched = prefetch_distances(instructions)
        self.names = Names(instructions)
        self.values: dict[UOp, str] = {}
        self.splats: set[UOp] = set()  # vectors whose text is that of one lane
        self.products: set[UOp] = set()
        self.registers: set[UOp] = set()  # loads that are written as the register itself
        self.masks: dict[UOp, int] = {}  # bits of the lanes of conditions
        self.top: list[str] = []
        self.body: list[str] = []
        self.depth = 1
        self.live = live_nodes(instructions)
        self.used = users(instructions, self.live)
        self.blocks = blocks(instructions)
        self.position = {node: number for number, node in enumerate(instructions)}
        self.stores: dict[UOp, list[int]] = {}
        for number, node in enumerate(instructions):
            if node.op is ops.STORE:
                self.stores.setdefault(access_of(node.src[0]).base, []).append(number)
        self.threaded = any(n.op is ops.RANGE and n.arg[1] is Axis.THREAD for n in instructions)

    def do(self, line: str) -> None:
        self.body.append("    " * self.depth + line)

    def kind(self, node: UOp) -> str:
        """Return the C type of a value."""
        count = node.dtype.count
        if count == 1:
            return self.dialect.scalar(node.dtype)
        if node.dtype.element is boolean:
            return self.unit.vector(integer_type(self.masks[node]), count)
        return self.unit.vector(node.dtype.element, count)

    def atom(self, node: UOp) -> str:
        return atom(self.values[node])

    def lane(self, node: UOp) -> str:
        """Return a lane of a vector inside a loop over `lane`; a scalar is the same in all."""
        if node.dtype.count == 1 or node in self.splats:
            return self.atom(node)
        if node.dtype.element is boolean:
            # Masks are 0 or -1. Not `!= 0`: of two lanes, GCC 12 takes that for -1 in a number.
            return f"({self.values[node]}[lane] & 1)"
        return f"{self.values[node]}[lane]"

    def whole(self, node: UOp) -> str:
        """Return a vector with all its lanes."""
        if node not in self.splats:
            return self.values[node]
        kind = self.kind(node)
        if node.op is ops.CONST and node.arg == 0 and math.copysign(1, node.arg) > 0:
            return f"({kind}){{0}}"
        if node.dtype.element is boolean:
            return f"({kind}){{0}} - (int8_t){self.atom(node)}"
        return f"{self.exact_lane(node)} - ({kind}){{0}}"

    def exact_lane(self, node: UOp) -> str:
        """Return a lane cast to its own type, which C may have promoted to `int`."""
        lane = node.dtype.element
        short = (not lane.is_float and lane.bits < 32) or is_held_as_bits(lane)
        return f"({self.dialect.scalar(lane)}){self.atom(node)}" if short else self.atom(node)

    def define(self, node: UOp, expression: str) -> None:
        """Define a value by a new name, or inline a short one that is used once."""
        if node.dtype.count == 1 and self._is_inlined(node, expression):
            self.values[node] = expression
            return
        name = self.names.fresh()
        self.values[node] = name
        self.do(f"{self.kind(node)} {name} = {expression};")

    def _is_inlined(self, node: UOp, expression: str) -> bool:
        users = self.used[node]
        if len(users) != 1 or len(expression) > MAX_INLINE_CHARACTERS or node.op is ops.LOAD:
            return False
        user = users[0]
        read = [s for s in node.src if s in self.registers]
        if read and (user.op is not ops.STORE or not all(self.is_kept(s, user) for s in read)):
            return False  # it has to be computed before the register is written again
        return self.blocks[user] == self.blocks[node] and (
            user.dtype.count == 1 or user.op in (ops.VECTORIZE, ops.INDEX)
        )

    def is_kept(self, node: UOp, user: UOp) -> bool:
        """Return whether memory still has the value of a load where a user is written."""
        stores = self.stores.get(access_of(node.src[0]).base, [])
        following = bisect.bisect_right(stores, self.position[node])
        limit = stores[following] if following < len(stores) else len(self.instructions)
        return self.position[user] <= limit and self.blocks[user] == self.blocks[node]

    def by_lane(self, node: UOp, expression: str) -> None:
        """Define a vector lane by lane."""
        name = self.names.fresh()
        if node.dtype.element is boolean:
            self.masks.setdefault(node, 8)
            expression = f"-({expression})"
        self.do(f"{self.kind(node)} {name} = {{0}};")
        self.over_lanes(node.dtype.count, f"{name}[lane] = {expression};")
        self.values[node] = name

    def listed(self, node: UOp, *expressions: str) -> None:
        """Define a vector by a list of its lanes, without a loop; from one text, or one each."""
        texts = expressions if len(expressions) > 1 else expressions * node.dtype.count
        if node.dtype.element is boolean:
            self.masks.setdefault(node, 8)
            texts = tuple(f"-({text})" for text in texts)
        lanes = (at_lane(text, k) for k, text in enumerate(texts))
        self.define(node, f"{{{', '.join(lanes)}}}")

    def over_lanes(self, count: int, *statements: str) -> None:
        self.do(f"for (int lane = 0; lane < {count}; lane++)")
        for depth, statement in enumerate(statements, 1):
            self.do("    " * depth + statement)


def at_lane(text: str, number: int) -> str:
    """Return the text for one lane, given that for the variable `lane`."""
    return re.sub(r"\blane\b", str(number), text)


def integer_type(bits: int, kind: str = "i") -> DType:
    """Return the integer type of a width in bits."""
    return dtypes.dtype(f"{kind}{bits}")


def atom(expression: str) -> str:
    """Return an expression with parentheses if it needs them as an operand."""
    return expression if _is_atom(expression) else f"({expression})"


def _is_atom(expression: str) -> bool:
    if re.fullmatch(r"[\w.]+", expression):
        return True
    prefix = re.match(r"\w*[(\[]", expression)
    if prefix is None or expression[-1] not in ")]":
        return False
    depth = 0
    for position, letter in enumerate(expression):
        depth += (letter in "([") - (letter in ")]")
        if depth == 0 and position >= prefix.end():
            return position == len(expression) - 1
    return False


def without_parentheses(expression: str) -> str:
    """Return an expression without enclosing parentheses."""
    whole = expression.startswith("(") and _is_atom(expression)
    return expression[1:-1] if whole else expression
