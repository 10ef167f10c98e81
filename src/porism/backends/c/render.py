"""Render: a linear kernel as C to be read, or to be compiled.

A kernel becomes a function of its buffers, its variables and, if its outermost loop is of the kind
THREAD, the part of that loop that it is to run. A vector is a type of gcc and clang; what these
have no sign for is a short loop over its lanes. A vector of conditions is one of integers, -1 where
the condition holds and 0 elsewhere, as comparisons give it.
"""

from __future__ import annotations

import bisect
import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final

from porism.backends.c.access import Place, place_of
from porism.backends.c.dialect import C99, Dialect, is_bits, vector_lanes
from porism.backends.c.names import Names
from porism.backends.c.scalars import Scalars, fits, is_defined, literal, sign
from porism.backends.function import parameters
from porism.base.dtypes import DType, Kind, boolean, i8
from porism.ir import ops
from porism.ir.axis import Axis
from porism.ir.node import UOp
from porism.ir.ops import Group, Op

ALIGNMENT: Final = 64
"""Of local memory, in bytes."""

LONGEST: Final = 60
"""Characters of an expression that is written where it is used."""

_EFFECTS: Final = frozenset(
    {ops.STORE, ops.RANGE, ops.END, ops.IF, ops.ENDIF, ops.BARRIER, ops.SINK}
)
_ORDER: Final = frozenset({ops.END, ops.ENDIF, ops.GROUP, ops.SINK, ops.NOOP, ops.BARRIER})
_BETWEEN: Final = frozenset(
    {ops.ADD, ops.SUB, ops.MUL, ops.FDIV, ops.AND, ops.OR, ops.XOR, ops.SHR}
)
"""Ops that vectors have a sign for, beside the comparisons."""


def text(lines: Sequence[UOp], name: str, dialect: Dialect = C99) -> str:
    """A kernel for people: a file of its own."""
    unit = Unit(dialect)
    function = Renderer(unit, name, lines).function()
    return unit.head() + "\n" + function


def module(named: Mapping[str, Sequence[UOp]], dialect: Dialect = C99) -> str:
    """Kernels in one file, each with a function `name_run` of (arguments, begin, end)."""
    unit = Unit(dialect)
    parts = []
    for name, lines in named.items():
        renderer = Renderer(unit, name, lines, hidden=True)
        parts += [renderer.function(), renderer.unpacking()]
    return "\n".join([unit.head(), *parts])


class Unit:
    """One file: the types and functions that its kernels need."""

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
        """The name of a vector type."""
        name = f"{lane.name}x{count}"
        if name not in self.types:
            size = lane.bits // 8
            kind = self.dialect.scalar(lane)
            self.types[name] = self.dialect.vector(name, kind, size, vector_lanes(count))
        return name

    def view(self, lane: DType) -> str:
        name = f"any_{lane.name}"
        self.types.setdefault(name, self.dialect.view(name, self.dialect.kept(lane)))
        return name


class Renderer:
    """One kernel being written."""

    def __init__(
        self, unit: Unit, name: str, lines: Sequence[UOp], *, hidden: bool = False,
        alias: bool = False,
    ) -> None:  # fmt: skip
        self.unit = unit
        self.dialect = unit.dialect
        self.scalars = unit.scalars
        self.name = name
        self.lines = lines
        self.hidden = hidden
        self.alias = alias
        self.buffers, self.variables = parameters(lines)
        self.names = Names(lines)
        self.values: dict[UOp, str] = {}
        self.splats: set[UOp] = set()  # vectors whose text is that of one lane
        self.products: set[UOp] = set()
        self.registers: set[UOp] = set()  # loads that are written as the register itself
        self.masks: dict[UOp, int] = {}  # bits of the lanes of conditions
        self.top: list[str] = []
        self.body: list[str] = []
        self.depth = 1
        self.live = _live(lines)
        self.used = _used(lines, self.live)
        self.blocks = _blocks(lines)
        self.at = {node: number for number, node in enumerate(lines)}
        self.stores: dict[UOp, list[int]] = {}
        for number, node in enumerate(lines):
            if node.op is ops.STORE:
                self.stores.setdefault(place_of(node.src[0]).base, []).append(number)
        self.threaded = any(n.op is ops.RANGE and n.arg[1] is Axis.THREAD for n in lines)

    # -- the function ------------------------------------------------------------------------------

    def function(self) -> str:
        for node in self.lines:
            if node not in self.live:
                continue
            handler = _HANDLERS.get(node.op)
            if handler is None:
                raise self.dialect.missing(node)
            handler(self, node)
        arguments = list(self._arguments())
        last = len(arguments) - 1
        width = max((len(kind) for kind, _ in arguments), default=0) + 1
        rows = [
            f"    {kind + ('' if k == last else ','):<{width}}  /* {note} */".rstrip()
            for k, (kind, note) in enumerate(arguments)
        ]
        qualifier = "static void" if self.hidden else self.dialect.entry
        unused = [
            f"    (void){self.names[p]};"
            for p in (*self.buffers, *self.variables)
            if p not in self.live
        ]
        if not rows:
            rows = ["    void"]
        head = [f"{qualifier} {self.name}(", *rows, ")", "{"]
        return "\n".join([*head, *unused, *self.top, *self.body, "}"]) + "\n"

    def _arguments(self) -> Iterator[tuple[str, str]]:
        for node in self.buffers:
            kind = self.dialect.kept(node.dtype.element)
            restrict = "" if self.alias else f"{self.dialect.restrict} "
            constant = "" if self.names.is_written(node) else "const "
            size = node.dtype.size
            many = "elements" if size < 0 else f"{size} element{'s' * (size != 1)}"
            yield (
                f"{constant}{kind} *{restrict}{self.names[node]}",
                f"{many} of {node.dtype.element.element.name}, {self.names.role(node)}",
            )
        for node in self.variables:
            _, low, high = node.arg
            yield f"int64_t {self.names[node]}", f"from {low} to {high}"
        if self.threaded:
            yield "int64_t begin", "the first iteration of the outermost loop"
            yield "int64_t end", "the one after the last"

    def unpacking(self) -> str:
        """The function that takes its arguments from an array."""
        passed = []
        for place, node in enumerate([*self.buffers, *self.variables]):
            if node.op is ops.PARAM:
                constant = "" if self.names.is_written(node) else "const "
                kind = f"{constant}{self.dialect.kept(node.dtype.element)} *"
                passed.append(f"({kind})(intptr_t)arguments[{place}]")
            else:
                passed.append(f"arguments[{place}]")
        lines = [f"void {self.name}_run(const int64_t *arguments, int64_t begin, int64_t end)", "{"]
        if self.threaded:
            passed += ["begin", "end"]
        else:
            lines.append("    (void)begin, (void)end;")
        if not self.buffers and not self.variables:
            lines.append("    (void)arguments;")
        call = ",\n        ".join(passed)
        return "\n".join([*lines, f"    {self.name}({call});", "}"]) + "\n"

    # -- small pieces ------------------------------------------------------------------------------

    def do(self, line: str) -> None:
        self.body.append("    " * self.depth + line)

    def kind(self, node: UOp) -> str:
        """The type of a value."""
        count = node.dtype.count
        if count == 1:
            return self.dialect.scalar(node.dtype)
        if node.dtype.element is boolean:
            return self.unit.vector(_word(self.masks[node]), count)
        return self.unit.vector(node.dtype.element, count)

    def atom(self, node: UOp) -> str:
        return _atom(self.values[node])

    def lane(self, node: UOp) -> str:
        """A lane of a vector in a loop over lanes; a scalar is the same in all."""
        if node.dtype.count == 1 or node in self.splats:
            return self.atom(node)
        if node.dtype.element is boolean:
            return f"({self.values[node]}[lane] != 0)"
        return f"{self.values[node]}[lane]"

    def whole(self, node: UOp) -> str:
        """All lanes of a vector."""
        if node not in self.splats:
            return self.values[node]
        kind = self.kind(node)
        if node.op is ops.CONST and node.arg == 0 and math.copysign(1, node.arg) > 0:
            return f"({kind}){{0}}"
        if node.dtype.element is boolean:
            return f"({kind}){{0}} - (int8_t){self.atom(node)}"
        return f"{self._exact_lane(node)} - ({kind}){{0}}"

    def _exact_lane(self, node: UOp) -> str:
        """A lane in its own type, which C makes an `int` where that is shorter."""
        lane = node.dtype.element
        short = (not lane.is_float and lane.bits < 32) or is_bits(lane)
        return f"({self.dialect.scalar(lane)}){self.atom(node)}" if short else self.atom(node)

    def define(self, node: UOp, expression: str) -> None:
        """A value by name; a short one that is used once is written where it is used."""
        if node.dtype.count == 1 and self._is_inlined(node, expression):
            self.values[node] = expression
            return
        name = self.names.fresh()
        self.values[node] = name
        self.do(f"{self.kind(node)} {name} = {expression};")

    def _is_inlined(self, node: UOp, expression: str) -> bool:
        users = self.used[node]
        if len(users) != 1 or len(expression) > LONGEST or node.op is ops.LOAD:
            return False
        if any(s in self.registers for s in node.src):
            return False  # it has to be computed before the register is written again
        user = users[0]
        return self.blocks[user] == self.blocks[node] and (
            user.dtype.count == 1 or user.op in (ops.VECTORIZE, ops.INDEX)
        )

    def by_lane(self, node: UOp, expression: str) -> None:
        """A vector, lane by lane."""
        name = self.names.fresh()
        if node.dtype.element is boolean:
            self.masks.setdefault(node, 8)
            expression = f"-({expression})"
        self.do(f"{self.kind(node)} {name} = {{0}};")
        self.over_lanes(node.dtype.count, f"{name}[lane] = {expression};")
        self.values[node] = name

    def over_lanes(self, count: int, *statements: str) -> None:
        self.do(f"for (int lane = 0; lane < {count}; lane++)")
        for depth, statement in enumerate(statements, 1):
            self.do("    " * depth + statement)

    # -- leaves ------------------------------------------------------------------------------------

    def constant(self, node: UOp) -> None:
        lane = node.dtype.element
        if node.op is ops.CONST:
            self.values[node] = literal(lane, node.arg, self.dialect)
            if node.dtype.count > 1:
                self.splats.add(node)
                self.masks[node] = 8
            return
        self.masks[node] = 8
        if lane is boolean:
            lanes = ["-1" if value else "0" for value in node.arg]
        else:
            lanes = [literal(lane, value, self.dialect) for value in node.arg]
        self.define(node, f"{{{', '.join(lanes)}}}")

    def parameter(self, node: UOp) -> None:
        self.values[node] = self.names[node]

    def variable(self, node: UOp) -> None:
        name = self.names[node]
        short = node.dtype.bits < 64
        self.values[node] = f"({self.dialect.scalar(node.dtype)}){name}" if short else name

    def memory(self, node: UOp) -> None:
        name, kept, size = self.names[node], node.dtype.element, node.dtype.size
        kind = self.dialect.kept(kept)
        if kept.count > 1:
            kind = self.unit.vector(i8 if kept.element is boolean else kept.element, kept.count)
        many = f"[{max(size, 1)}]" if size != 1 else ""
        if node.op is ops.DEFINE_LOCAL:
            local = f"{self.dialect.local} " if self.dialect.local else ""
            self.top.append(f"    {local}{kind} {name}{many}{self.dialect.aligned(ALIGNMENT)};")
        else:
            self.do(f"{kind} {name}{many};")
        self.values[node] = name

    def special(self, node: UOp) -> None:
        self.values[node] = self.dialect.special(node)

    # -- loops and conditions ----------------------------------------------------------------------

    def loop(self, node: UOp) -> None:
        name, kind = self.names[node], self.dialect.scalar(node.dtype)
        start, end = "0", self.atom(node.src[0])
        if node.arg[1] is Axis.THREAD:
            start, end = f"({kind})begin", f"({kind})end"
            self.do(self.dialect.independent)
        self.do(f"for ({kind} {name} = {start}; {name} < {end}; {name}++) {{")
        self.depth += 1
        self.values[node] = name

    def condition(self, node: UOp) -> None:
        self.do(f"if ({self.values[node.src[0]]}) {{")
        self.depth += 1

    def end(self, node: UOp) -> None:
        self.depth -= 1
        self.do("}")

    def barrier(self, node: UOp) -> None:
        self.do(self.dialect.barrier(node))

    # -- memory ------------------------------------------------------------------------------------

    def element(self, place: Place, offset: str = "") -> str:
        """The element at a place, or one so much further."""
        base = place.base
        name = self._base(place)
        if base.dtype.element.count > 1:
            name = name if base.dtype.size == 1 else f"{name}[{self.values[place.index]}]"
            return f"{name}[{offset}]" if offset else name
        if place.index.dtype.count > 1:
            return f"{name}[{self.lane(place.index)}]"
        if base.op is ops.DEFINE_REG and base.dtype.size == 1:
            return name
        at = self.values[place.index]
        if offset:
            at = offset if at in ("0", "INT64_C(0)") else f"{at} + {offset}"
        return f"{name}[{at}]"

    def _base(self, place: Place) -> str:
        name = self.values[place.base]
        if place.viewed is None:
            return name
        constant = "" if self.names.is_written(place.base) else "const "
        return f"(({constant}{self.unit.view(place.viewed)} *){name})"

    def load(self, node: UOp) -> None:
        place = place_of(node.src[0])
        other = node.src[1] if len(node.src) > 1 else None
        count, gate = node.dtype.count, place.gate
        is_truth = node.dtype.element is boolean
        if count > 1:
            self.masks[node] = 8
        if not is_truth and self._is_register(node, place):
            self.values[node] = self.element(place)
            self.registers.add(node)
            return
        if count == 1 or not self._is_wide(place, node.dtype, gate):
            gathered = place.index.dtype.count > 1 or count == 1
            read = self.element(place, "" if gathered else "lane")
            read = f"{read} != 0" if is_truth else read
            if gate is not None:
                otherwise = "0" if other is None else self.lane(other)
                read = f"{self.lane(gate)} ? {read} : {otherwise}"
            (self.define if count == 1 else self.by_lane)(node, read)
            return
        kind = self.kind(node)
        read = self._wide(place, kind, "const ")
        read = f"({kind})({read} != 0)" if is_truth else read
        if gate is not None:
            otherwise = f"({kind}){{0}}" if other is None else self.whole(other)
            read = f"{self.atom(gate)} ? {read} : {otherwise}"
        self.define(node, read)

    def _is_register(self, node: UOp, place: Place) -> bool:
        """Whether a load of a whole register can stand where its value is used."""
        base = place.base
        if base.op is not ops.DEFINE_REG or base.dtype.size != 1 or place.gate is not None:
            return False
        if base.dtype.element is not node.dtype or place.viewed is not None:
            return False
        stores, here = self.stores.get(base, []), self.at[node]
        following = bisect.bisect_right(stores, here)
        limit = stores[following] if following < len(stores) else len(self.lines)
        return all(
            self.at[user] <= limit
            and self.blocks[user] == self.blocks[node]
            and user.op not in (ops.VECTORIZE, ops.AFTER, ops.CAST)  # these pass the text on
            for user in self.used[node]
        )

    def _is_wide(self, place: Place, dtype: DType, gate: UOp | None) -> bool:
        """Whether an access of a vector is one of a vector in memory."""
        return (
            place.index.dtype.count == 1
            and (gate is None or gate.dtype.count == 1)
            and vector_lanes(dtype.count) == dtype.count
            and self.dialect.vector_arithmetic
        )

    def _wide(self, place: Place, kind: str, constant: str) -> str:
        if place.base.dtype.element.count > 1:
            return self.element(place)
        return f"*({constant}{kind} *)&{self.element(place)}"

    def store(self, node: UOp) -> None:
        place, value = place_of(node.src[0]), node.src[1]
        count, gate = value.dtype.count, place.gate
        is_truth = value.dtype.element is boolean
        if count == 1 or is_truth or not self._is_wide(place, value.dtype, gate):
            scattered = place.index.dtype.count > 1 or count == 1
            target = self.element(place, "" if scattered else "lane")
            given = self.values[value] if count == 1 else self.lane(value)
        else:
            scattered = True
            target, given = self._wide(place, self.kind(value), ""), self.whole(value)
            count = 1
        statements = [f"{target} = {given};"]
        if gate is not None:
            statements.insert(0, f"if ({_bare(self.lane(gate))})")
        if count > 1:
            self.over_lanes(count, *statements)
        else:
            for depth, statement in enumerate(statements):
                self.do("    " * depth + statement)

    # -- arithmetic --------------------------------------------------------------------------------

    def arithmetic(self, node: UOp) -> None:
        if node.dtype.count == 1:
            self._scalar(node)
            return
        vectors = [s for s in node.src if s.dtype.count > 1 and s not in self.splats]
        if node.dtype.element is boolean:
            self.masks[node] = self._mask_bits(node)
        between = self._between(node) if vectors and self.dialect.vector_arithmetic else None
        if between is not None:
            self.define(node, between)
        else:
            self.by_lane(node, self.scalars.expression(node, *map(self.lane, node.src)))

    def _scalar(self, node: UOp) -> None:
        sums = node.op in (ops.ADD, ops.SUB)
        texts = [
            self.values[s] if sums and s in self.products and fits(node) else self.atom(s)
            for s in node.src
        ]
        texts = [self._short(node, s, t) for s, t in zip(node.src, texts, strict=True)]
        expression = self.scalars.expression(node, *texts)
        self.define(node, expression)
        if node.op is ops.MUL and self.values[node] == expression and not node.dtype.is_float:
            self.products.add(node)

    def _short(self, node: UOp, source: UOp, text: str) -> str:
        """A constant without its type, where the other operand gives it."""
        long = re.fullmatch(r"U?INT64_C\((-?\d+)\)", text)
        plain = node.op in (ops.ADD, ops.SUB, ops.MUL, ops.LT, ops.LE, ops.GT, ops.GE, ops.EQ)
        others = all(s is source or s.op is not ops.CONST for s in node.src)
        if long and plain and others and len(node.src) == 2 and node.src[0] is not node.src[1]:
            value = int(long[1])
            return str(value) if 0 <= value < 1 << 31 else text
        return text

    def _mask_bits(self, node: UOp) -> int:
        """How wide conditions are: as what is compared, or as the widest of conditions."""
        lane = node.src[-1].dtype.element
        if lane is not boolean:
            return 32 if is_bits(lane) else lane.bits
        return max([8, *(self.masks.get(s, 8) for s in node.src if s.dtype.count > 1)])

    def _between(self, node: UOp) -> str | None:
        """An op that vectors have a sign for."""
        op, lane = node.op, node.src[-1].dtype.element
        kind = self.kind(node)
        if is_bits(lane) or op is ops.WHERE:
            return None
        if lane is boolean:
            return self._between_masks(node)
        if op is ops.NOT:
            return f"~{self.values[node.src[0]]}"
        if op is ops.NEG and lane.is_float:
            return f"-{self.values[node.src[0]]}"
        compares = op.group is Group.COMPARISON
        if not compares and op not in _BETWEEN:
            return None
        if op is ops.SHR and not is_defined(node):
            return None
        a, b = (self._exact_lane(s) if s in self.splats else self.values[s] for s in node.src)
        if compares:
            return f"({kind})({a} {sign(op)} {b})"
        wraps = op in (ops.ADD, ops.SUB, ops.MUL) and lane.kind is Kind.SIGNED and not fits(node)
        if not wraps:
            return f"{a} {sign(op)} {b}"
        unsigned = _word(lane.bits, "u")
        scalar, vector = self.dialect.scalar(unsigned), self.unit.vector(unsigned, node.dtype.count)
        a, b = (
            f"({scalar if s in self.splats else vector}){t}"
            for s, t in zip(node.src, (a, b), strict=True)
        )
        return f"({kind})({a} {sign(op)} {b})"

    def _between_masks(self, node: UOp) -> str | None:
        between = {ops.AND: "&", ops.OR: "|", ops.XOR: "^", ops.MAX: "|", ops.MIN: "&"}
        if node.op is ops.NOT:
            return f"~{self.values[node.src[0]]}"
        same = all(s not in self.splats and self.masks[s] == self.masks[node] for s in node.src)
        if node.op not in between or not same:
            return None
        a, b = node.src
        return f"{self.values[a]} {between[node.op]} {self.values[b]}"

    def cast(self, node: UOp) -> None:
        source = node.src[0]
        if node.dtype.kind is Kind.POINTER:
            self.values[node] = self.values[source]
            return
        convert = self.scalars.converted
        if node.dtype.element is boolean and node.dtype.count > 1:
            lane = source.dtype.element
            self.masks[node] = 8 if lane is boolean else 32 if is_bits(lane) else lane.bits
        if node.dtype.count == 1:
            self.define(node, convert(source.dtype, node.dtype, self.atom(source)))
        elif node.dtype is source.dtype and source not in self.splats:
            self.values[node] = self.values[source]
        else:
            self.by_lane(node, convert(source.dtype, node.dtype, self.lane(source)))

    def bitcast(self, node: UOp) -> None:
        source = node.src[0]
        a, b = source.dtype, node.dtype
        if a.count == b.count:
            texts = self.lane(source)
            expression = self.scalars.reinterpreted(a, b, texts)
            if b.count == 1:
                self.define(node, expression)
            elif source in self.splats or boolean in (a.element, b.element):
                self.by_lane(node, expression)
            else:
                self.define(node, f"({self.kind(node)}){self.values[source]}")
            return
        held = self.names.fresh()
        self.do(f"{self.kind(source)} {held} = {self.whole(source)};")
        name = self.names.fresh()
        self.do(f"{self.kind(node)} {name};")
        self.do(f"memcpy(&{name}, &{held}, {b.count * b.bits // 8});")
        self.values[node] = name

    # -- lanes -------------------------------------------------------------------------------------

    def vectorize(self, node: UOp) -> None:
        truth = node.dtype.element is boolean
        self.masks[node] = 8
        if len(set(node.src)) == 1:
            self.values[node] = self.values[node.src[0]]
            if node.dtype.count > 1:
                self.splats.add(node)
            return
        lanes = [f"-{self.atom(s)}" if truth else self.values[s] for s in node.src]
        self.define(node, f"{{{', '.join(lanes)}}}")

    def lanes(self, node: UOp) -> None:
        source, chosen = node.src[0], node.arg
        truth = node.dtype.element is boolean
        self.masks[node] = self.masks.get(source, 8)
        name = self.values[source]
        if source.dtype.count == 1 or source in self.splats:
            self.values[node] = name
            if len(chosen) > 1:
                self.splats.add(node)
        elif len(chosen) == 1:
            self.define(node, f"{name}[{chosen[0]}] != 0" if truth else f"{name}[{chosen[0]}]")
        elif chosen == tuple(range(chosen[0], chosen[0] + len(chosen))):
            start = f" + {chosen[0]}" if chosen[0] else ""
            read = f"{name}[lane{start}]"
            self.by_lane(node, f"{read} != 0" if truth else read)
        else:
            self.define(node, f"{{{', '.join(f'{name}[{k}]' for k in chosen)}}}")

    # -- order -------------------------------------------------------------------------------------

    def passing(self, node: UOp) -> None:
        source = node.src[0]
        if source in self.values:
            self.values[node] = self.values[source]
        if source in self.splats:
            self.splats.add(node)
        if source in self.masks:
            self.masks[node] = self.masks[source]

    def nothing(self, node: UOp) -> None:
        pass


def _word(bits: int, kind: str = "i") -> DType:
    """The integers of a width."""
    from porism.base import dtypes

    return dtypes.dtype(f"{kind}{bits}")


def _atom(expression: str) -> str:
    """An expression that can stand as an operand anywhere."""
    return expression if _is_atom(expression) else f"({expression})"


def _is_atom(expression: str) -> bool:
    if re.fullmatch(r"[\w.]+", expression):
        return True
    found = re.match(r"\w*[(\[]", expression)
    if found is None or expression[-1] not in ")]":
        return False
    depth = 0
    for at, letter in enumerate(expression):
        depth += (letter in "([") - (letter in ")]")
        if depth == 0 and at >= found.end():
            return at == len(expression) - 1
    return False


def _bare(expression: str) -> str:
    """Without the parentheses around all of it."""
    whole = expression.startswith("(") and _is_atom(expression)
    return expression[1:-1] if whole else expression


def _live(lines: Sequence[UOp]) -> set[UOp]:
    """The nodes that have an effect, or that something with an effect needs."""
    live: set[UOp] = set()
    for node in reversed(lines):
        if node.op in _EFFECTS or node in live:
            live.add(node)
            if node.op is ops.SINK:
                continue
            live.update(node.src[:1] if node.op is ops.AFTER else node.src)
    return live


def _used(lines: Sequence[UOp], live: set[UOp]) -> dict[UOp, list[UOp]]:
    """Who writes the text of each value, as often as it does."""
    found: dict[UOp, list[UOp]] = {node: [] for node in lines}
    for node in lines:
        if node not in live or node.op in _ORDER:
            continue
        for source in node.src[:1] if node.op in (ops.AFTER, ops.RANGE, ops.IF) else node.src:
            found.setdefault(source, []).append(node)
    return found


def _blocks(lines: Sequence[UOp]) -> dict[UOp, int]:
    """The innermost loop or condition that each node is inside of, by number."""
    stack, found = [0], {}
    for number, node in enumerate(lines, 1):
        if node.op in (ops.END, ops.ENDIF):
            stack.pop()
        found[node] = stack[-1]
        if node.op in (ops.RANGE, ops.IF):
            stack.append(number)
    return found


Handler = Callable[[Renderer, UOp], None]

_HANDLERS: Final[dict[Op, Handler]] = {
    ops.CONST: Renderer.constant,
    ops.VCONST: Renderer.constant,
    ops.PARAM: Renderer.parameter,
    ops.VARIABLE: Renderer.variable,
    ops.SPECIAL: Renderer.special,
    ops.DEFINE_REG: Renderer.memory,
    ops.DEFINE_LOCAL: Renderer.memory,
    ops.RANGE: Renderer.loop,
    ops.END: Renderer.end,
    ops.IF: Renderer.condition,
    ops.ENDIF: Renderer.end,
    ops.BARRIER: Renderer.barrier,
    ops.INDEX: Renderer.nothing,
    ops.LOAD: Renderer.load,
    ops.STORE: Renderer.store,
    ops.CAST: Renderer.cast,
    ops.BITCAST: Renderer.bitcast,
    ops.VECTORIZE: Renderer.vectorize,
    ops.GEP: Renderer.lanes,
    ops.AFTER: Renderer.passing,
    ops.GROUP: Renderer.nothing,
    ops.NOOP: Renderer.nothing,
    ops.SINK: Renderer.nothing,
    **{op: Renderer.arithmetic for op in ops.table() if op.elementwise},
}
