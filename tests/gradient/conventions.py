"""Conventions: gradients at points without a derivative, as PyTorch has them.

Each row is a call on arrays for Porism and for PyTorch; `M` is the library, `F` where its functions
of networks are. PyTorch's values are in `conventions.json`, recorded by running this file with
PyTorch 2.13 installed.
"""

from __future__ import annotations

import importlib
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

RECORDED: Final = Path(__file__).parent / "conventions.json"


@dataclass(frozen=True)
class Row:
    """A call at a kink; `theirs` where PyTorch writes it differently."""

    ours: str
    arrays: tuple[Any, ...]
    theirs: str = ""


INF: Final = float("inf")
NAN: Final = float("nan")
AT_ZERO: Final = [-2.0, -0.0, 0.0, 3.0]
TIES: Final = [[1.0, 3.0, 3.0, 0.0], [2.0, 2.0, 2.0, 2.0]]

ROWS: Final = {
    "abs": Row("M.abs(a)", (AT_ZERO,)),
    "relu": Row("F.relu(a)", (AT_ZERO,)),
    "leaky_relu": Row("F.leaky_relu(a, 0.1)", (AT_ZERO,)),
    "sign": Row("M.sign(a) * a", (AT_ZERO,)),
    "sqrt": Row("M.sqrt(a)", ([0.0, 4.0],)),
    "sqrt of a product": Row("M.sqrt(a * a)", ([0.0, 4.0],)),
    "rsqrt": Row("M.rsqrt(a)", ([0.0, 4.0],)),
    "log": Row("M.log(a)", ([0.0, 4.0],)),
    "reciprocal": Row("M.reciprocal(a)", ([0.0, 4.0],)),
    "maximum": Row("M.maximum(a, b)", ([1.0, 2.0, 3.0], [1.0, 3.0, 2.0])),
    "minimum": Row("M.minimum(a, b)", ([1.0, 2.0, 3.0], [1.0, 3.0, 2.0])),
    "maximum with NaN": Row("M.maximum(a, b)", ([NAN, 2.0], [1.0, NAN])),
    "clip": Row("M.clip(a, -1, 2)", ([-2.0, -1.0, 0.0, 2.0, 3.0],)),
    "clip below": Row("M.clip(a, min=1)", ([0.0, 1.0, 2.0],)),
    "clip by tensors": Row(
        "M.clip(a, b, b + 1)", ([0.0, 1.0, 1.5, 2.0, 3.0], [1.0, 1.0, 1.0, 1.0, 1.0])
    ),
    "amax": Row("M.amax(a, 1)", (TIES,)),
    "amin": Row("M.amin(a, 1)", (TIES,)),
    "amax of all": Row("M.amax(a)", (TIES,), "M.max(a)"),
    "where with NaN": Row("M.where(a > 0, M.log(a), a * 2)", ([1.0, 2.0, -1.0],)),
    "where": Row("M.where(a > 0, a, b)", ([1.0, 0.0, -1.0], [INF, 2.0, NAN])),
    "sort": Row("M.sort(a, 1)", (TIES,), "M.sort(a, dim=1, stable=True)[0]"),
    "sort descending": Row(
        "M.sort(a, 1, descending=True)",
        (TIES,),
        "M.sort(a, dim=1, stable=True, descending=True)[0]",
    ),
    "cummax": Row("M.cummax(a, 1)", (TIES,), "M.cummax(a, 1)[0]"),
    "cummin": Row("M.cummin(a, 1)", (TIES,), "M.cummin(a, 1)[0]"),
    "median": Row("M.median(a)", ([1.0, 5.0, 2.0],)),
    "quantile": Row("M.quantile(a, 0.25)", ([1.0, 5.0, 2.0, 2.0],)),
    "norm at 0": Row("M.norm(a)", ([0.0, 0.0],), "M.linalg.vector_norm(a)"),
    "norm of order 1": Row("M.norm(a, 1)", (AT_ZERO,), "M.linalg.vector_norm(a, 1)"),
    "norm of order 3": Row("M.norm(a, 3)", (AT_ZERO,), "M.linalg.vector_norm(a, 3)"),
    "norm of order 3 at 0": Row("M.norm(a, 3)", ([0.0, 0.0],), "M.linalg.vector_norm(a, 3)"),
    "norm of order inf": Row(
        "M.norm(a, M.inf)", ([1.0, -3.0, 3.0],), "M.linalg.vector_norm(a, M.inf)"
    ),
    "std at 0": Row("M.std(a, correction=1)", ([2.0, 2.0, 2.0],)),
    "prod with a 0": Row("M.prod(a)", ([2.0, 0.0, 3.0],)),
    "prod with two 0": Row("M.prod(a)", ([2.0, 0.0, 3.0, 0.0],)),
    "cumprod with 0": Row("M.cumprod(a, 0)", ([2.0, 0.0, 3.0, 0.0, 5.0],)),
    "power 0": Row("a ** b", ([0.0, 0.0, 2.0, -2.0], [0.0, 2.0, 0.0, 2.0])),
    "power of a number": Row("a ** 2", ([0.0, -1.0],)),
    "square root as a power": Row("a ** 0.5", ([0.0, 4.0],)),
    "atan2": Row("M.atan2(a, b)", ([0.0, 1.0], [-1.0, 0.0])),
    "hypot": Row("M.hypot(a, b)", ([3.0, 0.0], [4.0, 1.0])),
    "copysign": Row("M.copysign(a, b)", ([0.0, 1.0, -1.0], [-1.0, -1.0, 1.0])),
    "remainder": Row("M.remainder(a, b)", ([5.0, -5.0, 6.0], [3.0, 3.0, 3.0])),
    "floor": Row("M.floor(a)", ([1.0, 1.5],)),
    "round": Row("M.round(a)", ([0.5, 1.5],)),
    "max_pool": Row("F.max_pool1d(a, 2)", ([[[1.0, 1.0, 2.0, 2.0]]],)),
    "max_pool that overlaps": Row("F.max_pool1d(a, 3, 1)", ([[[1.0, 2.0, 2.0, 1.0, 2.0]]],)),
    "logsumexp of -inf": Row("M.logsumexp(a, 0)", ([-INF, 0.0, 1.0],)),
    "softmax of -inf": Row("M.softmax(a, 0)", ([-INF, 0.0, 1.0],)),
    "logaddexp": Row("M.logaddexp(a, b)", ([1.0, -INF, 1000.0], [1.0, 2.0, -1000.0])),
    "sigmoid far out": Row("M.sigmoid(a)", ([-200.0, -1000.0, 1000.0],)),
    "softplus far out": Row("F.softplus(a)", ([-1000.0, 1000.0],)),
    "silu far out": Row("F.silu(a)", ([-1000.0, 1000.0],)),
    "gelu far out": Row("F.gelu(a)", ([-1000.0, 1000.0],)),
    "tanh far out": Row("M.tanh(a)", ([-1000.0, 1000.0],)),
    "huber": Row("F.huber_loss(a, b)", ([0.0, 1.0, 2.0, -1.0], [0.0, 0.0, 0.0, 0.0])),
    "l1": Row("F.l1_loss(a, b)", ([0.0, 1.0, -2.0], [0.0, 0.0, 0.0])),
    "log_softmax far apart": Row("M.log_softmax(a, 0)", ([0.0, 1000.0],)),
    "xlogy": Row("M.where(b > 0, b * M.log(b), 0.0) + a", ([1.0, 1.0], [0.0, 2.0])),
    "gather": Row(
        "M.take_along_axis(a, M.tensor([0, 0, 1]), 0)",
        ([1.0, 2.0],),
        "M.take_along_dim(a, M.tensor([0, 0, 1]), 0)",
    ),
    "index twice": Row("a[M.tensor([1, 1, 0])]", ([1.0, 2.0],)),
    "scatter_add": Row(
        "M.scatter_add(a, 0, M.tensor([0, 0, 1]), b)", ([1.0, 2.0], [3.0, 4.0, 5.0])
    ),
}


def recorded() -> dict[str, list[Any]]:
    """PyTorch's gradients by name: one for each array, as nested lists."""
    found: dict[str, list[Any]] = json.loads(RECORDED.read_text())
    return found


def record() -> None:
    """Compute the gradients with PyTorch, and write them."""
    torch: Any = importlib.import_module("torch")
    found = {}
    for name, row in ROWS.items():
        values = [torch.tensor(a, dtype=torch.float64, requires_grad=True) for a in row.arrays]
        names = {"M": torch, "F": torch.nn.functional, **dict(zip("abc", values, strict=False))}
        result = eval(row.theirs or row.ours, names)
        gradients = torch.autograd.grad(result.sum(), values, allow_unused=True)
        pairs = zip(gradients, values, strict=True)
        found[name] = [(torch.zeros_like(v) if g is None else g).tolist() for g, v in pairs]
    lines = [f"  {json.dumps(name)}: {json.dumps(values)}" for name, values in found.items()]
    RECORDED.write_text("{\n" + ",\n".join(lines) + "\n}\n")


if __name__ == "__main__":
    record()
