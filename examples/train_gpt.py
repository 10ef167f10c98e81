"""A small GPT learns to write like Python's documentation, character by character.

    python examples/train_gpt.py [--steps N] [--sample N]

The text is what every Python has: its licence and the docstrings of its modules.
"""

from __future__ import annotations

import argparse
import inspect
import math
import site
import sys
import time
from typing import Any

import numpy as np
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

import porism
from porism import nn, optim

MODULES = "argparse ast bisect collections csv dataclasses datetime decimal difflib enum fractions"
MODULES += " functools heapq inspect itertools json logging math os pathlib pickle random re shutil"
MODULES += " statistics string subprocess tempfile textwrap threading unittest zipfile"


class Block(nn.Module):
    """Attention and a perceptron, each with a norm before and a residual around it."""

    def __init__(self, features: int, heads: int) -> None:
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(features), nn.LayerNorm(features)
        self.qkv = nn.Linear(features, 3 * features, bias=False)
        self.out = nn.Linear(features, features, bias=False)
        self.up = nn.Linear(features, 4 * features)
        self.down = nn.Linear(4 * features, features)

    def forward(self, x: Any) -> Any:
        """Return x after one layer."""
        batch, length, features = x.shape
        split = self.qkv(self.norm1(x)).reshape(batch, length, 3, self.heads, -1)
        q, k, v = split.permute_dims(2, 0, 3, 1, 4)
        attended = porism.scaled_dot_product_attention(q, k, v, causal=True)
        x = x + self.out(attended.transpose(1, 2).reshape(batch, length, features))
        return x + self.down(self.up(self.norm2(x)).gelu(approximate="tanh"))


class GPT(nn.Module):
    """Embeddings, blocks, and a linear layer back to characters."""

    def __init__(self, symbols: int, length: int, features: int, heads: int, layers: int) -> None:
        self.symbols = nn.Embedding(symbols, features)
        self.positions = nn.Embedding(length, features)
        self.blocks = [Block(features, heads) for _ in range(layers)]
        self.norm = nn.LayerNorm(features)
        self.head = nn.Linear(features, symbols, bias=False)
        for name, p in self.named_parameters():
            if p.ndim == 2:
                depth = 2 * layers if name.endswith(("out.weight", "down.weight")) else 1
                nn.init.normal_(p, std=0.02 / math.sqrt(depth))

    def forward(self, x: Any) -> Any:
        """Return logits of the next character at each position."""
        hidden = self.symbols(x) + self.positions.weight[: x.shape[1]]
        for block in self.blocks:
            hidden = block(hidden)
        return self.head(self.norm(hidden))


def text() -> str:
    """Return Python's licence and the documentation of some of its modules."""
    site.main()
    parts = [sys.copyright]
    for name in MODULES.split():
        module = __import__(name)
        parts.append(inspect.getdoc(module) or "")
        for _, value in sorted(inspect.getmembers(module, callable)):
            parts.append(inspect.getdoc(value) or "")
    return "\n\n".join(dict.fromkeys(parts))


def main(steps: int, sample: int, batch: int = 16, length: int = 64) -> list[float]:
    """Train, print the loss from time to time, then write some characters; return the losses."""
    porism.seed(1)
    rng = np.random.default_rng(1)
    corpus = text()
    symbols = sorted(set(corpus))
    codes = np.array([symbols.index(c) for c in corpus], np.int64)
    print(f"{len(corpus)} characters, {len(symbols)} different", flush=True)
    net = GPT(len(symbols), length, features=128, heads=4, layers=4)
    optimizer = optim.AdamW(net.parameters(), lr=1e-3, weight_decay=0.1)
    warm_up = optim.lr_scheduler.LinearLR(optimizer, 0.1, total_iters=20)
    cosine = optim.lr_scheduler.CosineAnnealingLR(optimizer, max(steps - 20, 1), 1e-4)
    schedule = optim.lr_scheduler.SequentialLR(optimizer, [warm_up, cosine], [20])

    @porism.jit
    def train(x: Any, y: Any) -> Any:
        loss = porism.cross_entropy(net(x).reshape(-1, len(symbols)), y.reshape(-1))
        loss.backward()
        optim.clip_grad_norm_(net.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        return loss

    losses: list[float] = []
    columns = (TextColumn("{task.description}"), BarColumn(), TimeRemainingColumn())
    began = time.perf_counter()
    with Progress(*columns, transient=True) as progress:
        task = progress.add_task("training", total=steps)
        for step in range(steps):
            starts = rng.integers(0, len(codes) - length - 1, batch)
            windows = np.stack([codes[s : s + length + 1] for s in starts])
            losses.append(train(windows[:, :-1], windows[:, 1:]).item())
            schedule.step()
            progress.update(task, advance=1, description=f"loss {losses[-1]:.3f}")
            if step % max(steps // 10, 1) == 0 or step == steps - 1:
                recent = float(np.mean(losses[-20:]))
                seconds = time.perf_counter() - began
                progress.console.print(f"step {step:5}  loss {recent:.3f}  {seconds:.1f} s")
    if sample:
        print(write(net, symbols, length, sample, rng))
    return losses


def write(net: GPT, symbols: list[str], length: int, count: int, rng: Any) -> str:
    """Return characters that the net writes, each drawn from its probabilities."""
    net.eval()

    @porism.jit
    def probabilities(window: Any) -> Any:
        return porism.softmax(net(window) / 0.8)

    written = [symbols.index("\n")]
    for _ in range(count):
        window = np.zeros((1, length), np.int64)
        recent = written[-length:]
        window[0, : len(recent)] = recent
        chances = probabilities(window).numpy()[0, len(recent) - 1].astype(float)
        written.append(int(rng.choice(len(symbols), p=chances / chances.sum())))
    return "".join(symbols[code] for code in written)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--steps", type=int, default=600)
    parser.add_argument("--sample", type=int, default=300, help="characters to write at the end")
    arguments = parser.parse_args()
    main(arguments.steps, arguments.sample)
