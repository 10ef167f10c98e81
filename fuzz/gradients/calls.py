"""Calls: the texts that differentiable programs are made of, for Porism and for PyTorch.

A text is evaluated twice: `M` is porism or torch, `F` is porism or torch.nn.functional, `a` and `b`
are earlier results. Where the libraries write something differently, there are two texts.
"""

from __future__ import annotations

from dataclasses import dataclass
from random import Random

Shape = tuple[int, ...]


@dataclass(frozen=True)
class Call:
    """A call as text, of Porism and of PyTorch."""

    ours: str
    theirs: str


def same(text: str) -> Call:
    return Call(text, text)


ELEMENTWISE = (
    "M.sin(a)", "M.cos(a)", "M.tanh(a)", "M.exp(M.tanh(a))", "M.expm1(M.sin(a))", "M.sigmoid(a)",
    "M.erf(a)", "F.softplus(a)", "F.gelu(a)", "F.gelu(a, approximate='tanh')", "F.silu(a)",
    "F.relu(a)", "F.leaky_relu(a, 0.1)", "M.abs(a)", "M.square(a)", "M.log(a * a + 1)",
    "M.log1p(a * a)", "M.log2(a * a + 1)", "M.sqrt(a * a + 0.5)", "M.rsqrt(a * a + 0.5)",
    "M.reciprocal(a * a + 1)", "M.atan(a)", "M.asinh(a)", "M.acosh(a * a + 1.5)",
    "M.atanh(M.tanh(a) * 0.9)", "M.asin(M.tanh(a) * 0.9)", "M.acos(M.tanh(a) * 0.9)",
    "M.sinh(M.tanh(a))", "M.cosh(M.tanh(a))", "M.tan(M.tanh(a))", "-a", "a * 3 - 1",
    "2 / (a * a + 1)",
    "M.clip(a, -0.7, 0.6)", "a ** 3", "(a * a + 0.1) ** 1.5", "M.exp2(M.tanh(a))",
)  # fmt: skip

PAIRS = (
    "a + b", "a - b", "a * b", "a / (b * b + 1)", "M.maximum(a, b)", "M.minimum(a, b)",
    "M.where(a > b, a * 2, b)", "M.atan2(a, b * b + 1)", "M.hypot(a, b + 3)", "M.logaddexp(a, b)",
    "(a * a + 0.5) ** M.tanh(b)", "M.copysign(a, b)",
)  # fmt: skip

REDUCTIONS = (
    "a.sum({axis}{keep})", "a.mean({axis}{keep})", "M.amax(a, {axis}{keep})",
    "M.amin(a, {axis}{keep})", "M.logsumexp(a, {axis}{keep})", "a.prod({axis}{keep})",
    "M.softmax(a, {axis})", "M.log_softmax(a, {axis})", "M.cumsum(a, {axis})",
    "M.cumprod(a, {axis})", "M.flip(a, ({axis},))", "M.roll(a, 1, {axis})",
    "M.cat([a, a * 2], {axis})", "M.stack([a, a * a], {axis})",
)  # fmt: skip

REDUCTION_PAIRS = (
    ("M.var(a, {axis})", "M.var(a, {axis}, correction=0)"),
    ("M.std(a * 3, {axis})", "M.std(a * 3, {axis}, correction=0)"),
    ("M.norm(a, 2, {axis})", "M.linalg.vector_norm(a, 2, {axis})"),
    ("M.norm(a, 3, {axis})", "M.linalg.vector_norm(a, 3, {axis})"),
    ("M.norm(a, 1, {axis})", "M.linalg.vector_norm(a, 1, {axis})"),
    ("M.cummax(a, {axis})", "M.cummax(a, {axis})[0]"),
    ("M.cummin(a, {axis})", "M.cummin(a, {axis})[0]"),
    ("M.sort(a, {axis})", "M.sort(a, dim={axis}, stable=True)[0]"),
)


def draw(random: Random, shapes: list[Shape]) -> tuple[Call, int, int] | None:
    """Return a call and the numbers of its operands; None if what was drawn does not fit."""
    first = random.randrange(len(shapes))
    kind = random.choice("eeeepppprrrrmmmiw")
    shape = shapes[first]
    if kind == "e":
        return same(random.choice(ELEMENTWISE)), first, first
    if kind == "p":
        second = random.choice([k for k, s in enumerate(shapes) if broadcasts(shape, s)])
        return same(random.choice(PAIRS)), first, second
    drawn = _DRAWN[kind](random, shape, shapes)
    if drawn is None:
        return None
    call, other = drawn
    return call, first, first if other is None else other


def broadcasts(a: Shape, b: Shape) -> bool:
    short = min(len(a), len(b))
    pairs = zip(a[len(a) - short :], b[len(b) - short :], strict=True)
    return all(m == n or m == 1 or n == 1 for m, n in pairs)


Drawn = tuple[Call, int | None] | None


def _reduction(random: Random, shape: Shape, shapes: list[Shape]) -> Drawn:
    if not shape:
        return None
    values = {
        "axis": str(random.randrange(len(shape))),
        "keep": random.choice(("", ", keepdim=True")),
    }
    if random.random() < 0.3:
        ours, theirs = random.choice(REDUCTION_PAIRS)
        return Call(ours.format(**values), theirs.format(**values)), None
    return same(random.choice(REDUCTIONS).format(**values)), None


def _movement(random: Random, shape: Shape, shapes: list[Shape]) -> Drawn:
    if not shape:
        return same("a.reshape(1, 1)"), None
    size = 1
    for n in shape:
        size *= n
    axis = random.randrange(len(shape))
    order = list(range(len(shape)))
    random.shuffle(order)
    if len(shape) < 3:
        pads = ((1, 2),) + ((0, 1),) * (len(shape) - 1)
        flat = ", ".join(f"{x}, {y}" for x, y in reversed(pads))
    else:
        pads, flat = ((0, 0),) * len(shape), "0, 0"
    slices = ", ".join(random.choice((":", "1:", "::2", ":-1", "0:1")) for _ in shape)
    choices = [
        same(f"a.reshape({size})"),
        same(f"a.permute({tuple(order)})"),
        same(f"a[{slices}]"),
        same(f"a[None].expand(2, {', '.join(map(str, shape))})"),
        Call(f"M.pad(a, {pads})", f"F.pad(a, ({flat}))"),
        same(f"M.tile(a, ({', '.join('2' for _ in shape)},))"),
        same(f"a.unsqueeze({axis})"),
    ]
    if len(shape) == 2:
        choices += [same("M.tril(a)"), same("M.triu(a, 1)"), same("M.diagonal(a)"), same("a.T")]
    if len(shape) == 3 and shape[2] >= 3 and shape[1] >= 1:
        choices += [
            same("F.max_pool1d(a, 2)"),
            same("F.max_pool1d(a, 3, 1, 1)"),
            same("F.avg_pool1d(a, 2, 1)"),
            Call("M.layer_norm(a)", "F.layer_norm(a, (a.shape[-1],))"),
        ]
    return random.choice(choices), None


def _indexing(random: Random, shape: Shape, shapes: list[Shape]) -> Drawn:
    if not shape or 0 in shape:
        return None
    axis = random.randrange(len(shape))
    indices = [random.randrange(shape[axis]) for _ in range(random.randrange(1, 5))]
    first = [random.randrange(shape[0]) for _ in range(3)]
    choices = [
        same(f"M.index_select(a, {axis}, M.tensor({indices}))"),
        same(f"a[M.tensor({first})]"),
        Call(
            f"M.take_along_axis(a, M.argsort(a * 0.7, {axis}), {axis})",
            f"M.take_along_dim(a, M.argsort(a * 0.7, dim={axis}, stable=True), {axis})",
        ),
        Call(
            f"M.topk(a, {min(2, shape[axis])}, {axis}).values",
            f"M.topk(a, {min(2, shape[axis])}, {axis})[0]",
        ),
        same(f"M.index_add(a, {axis}, M.tensor({indices[:1]}), "
             f"M.index_select(a, {axis}, M.tensor({indices[-1:]})))"),
    ]  # fmt: skip
    return random.choice(choices), None


def _product(random: Random, shape: Shape, shapes: list[Shape]) -> Drawn:
    fitting = [k for k, s in enumerate(shapes) if s and shape and s[-1] == shape[-1]]
    if not fitting:
        return None
    second = random.choice(fitting)
    other = shapes[second]
    if len(shape) == 3 and len(other) == 3 and shape[2] >= 2 and other[1] == shape[1]:
        taps = min(2, other[2])
        return (
            same(f"F.conv1d(a, b[:, :, :{taps}], stride={random.choice((1, 2))}, padding=1)"),
            second,
        )
    if len(shape) == 2 and len(other) == 2:
        return same(random.choice(("a @ b.T", "M.einsum('ij,kj->ki', a, b)"))), second
    if len(shape) == 1 and len(other) >= 1:
        return same("b @ a"), second
    if len(shape) >= 2 and len(other) == 1:
        return same("a @ b"), second
    return None


_DRAWN = {"r": _reduction, "m": _movement, "i": _indexing, "w": _product}
