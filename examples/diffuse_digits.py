"""A diffusion model learns the handwritten digits, draws new ones, and writes them to a PNG file.

    python examples/diffuse_digits.py [--steps N] [--out digits.png]

The net sees a digit with noise and is asked for the noise; drawing starts from noise alone, and
takes it away step by step.
"""

from __future__ import annotations

import argparse
import math
import struct
import time
import zlib
from typing import Any

import numpy as np
from sklearn.datasets import load_digits

import porism
from porism import nn, optim

LEVELS = 100
"""The number of noise levels."""
BATCH = 128


class Denoiser(nn.Module):
    """Convolutions that are told the noise level and the digit."""

    def __init__(self, channels: int = 48) -> None:
        self.levels, self.digits = nn.Embedding(LEVELS, channels), nn.Embedding(10, channels)
        self.enter = nn.Conv2d(1, channels, 3, padding=1)
        self.layers = [nn.Conv2d(channels, channels, 3, padding=1) for _ in range(4)]
        self.norms = [nn.GroupNorm(8, channels) for _ in range(4)]
        self.leave = nn.Conv2d(channels, 1, 3, padding=1)

    def forward(self, x: Any, level: Any, digit: Any) -> Any:
        """Return the noise in x."""
        condition = (self.levels(level) + self.digits(digit))[:, :, None, None]
        x = self.enter(x)
        for layer, norm in zip(self.layers, self.norms, strict=True):
            x = x + layer(porism.silu(norm(x) + condition))
        return self.leave(porism.silu(x))


def noise_schedule() -> Any:
    """Return how much of the picture is left at each level, as a share of the variance."""
    steps = np.arange(LEVELS + 1) / LEVELS
    left = np.cos((steps + 0.008) / 1.008 * math.pi / 2) ** 2
    return np.clip(left[1:] / left[0], 1e-4, 1).astype("float32")


def main(steps: int, out: str) -> float:
    """Train, draw ten digits of each kind, write them, and return the last loss."""
    porism.seed(0)
    rng = np.random.default_rng(0)
    data = load_digits()
    pictures = (data.images[:, None] / 8 - 1).astype("float32")
    left = noise_schedule()
    net = Denoiser()
    optimizer = optim.AdamW(net.parameters(), lr=2e-3)
    schedule = optim.lr_scheduler.CosineAnnealingLR(optimizer, steps, 1e-5)

    @porism.jit
    def train(x: Any, level: Any, digit: Any, share: Any) -> Any:
        noise = porism.randn(*x.shape)
        mixed = x * share.sqrt() + noise * (1 - share).sqrt()
        loss = porism.mse_loss(net(mixed, level, digit), noise)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        return loss

    began, losses = time.perf_counter(), []
    for step in range(steps):
        chosen = rng.integers(0, len(pictures), BATCH)
        level = rng.integers(0, LEVELS, BATCH)
        share = left[level][:, None, None, None]
        losses.append(train(pictures[chosen], level, data.target[chosen], share))
        schedule.step()
        if step % max(steps // 10, 1) == 0 or step == steps - 1:
            recent = float(np.mean([loss.item() for loss in losses[-20:]]))
            print(
                f"step {step:5}  loss {recent:.4f}  {time.perf_counter() - began:.1f} s", flush=True
            )
    write_png(out, draw(net, left))
    print(f"wrote {out}")
    return recent


def draw(net: Denoiser, left: Any) -> Any:
    """Return ten rows of ten drawn digits, 0 to 9 in each row."""
    net.eval()
    digit = np.tile(np.arange(10), 10)

    @porism.jit
    def denoise(x: Any, level: Any, share: Any, before: Any) -> Any:
        noise = net(x, level, digit)
        clean = ((x - (1 - share).sqrt() * noise) / share.sqrt()).clip(-1, 1)
        noise = (x - share.sqrt() * clean) / (1 - share).sqrt()
        return before.sqrt() * clean + (1 - before).sqrt() * noise

    x = porism.randn(100, 1, 8, 8)
    for level in reversed(range(LEVELS)):
        share = np.full((1, 1, 1, 1), left[level], "float32")
        before = np.full((1, 1, 1, 1), left[level - 1] if level else 1.0, "float32")
        x = denoise(x, np.full(100, level), share, before)
    rows = x.numpy().reshape(10, 10, 8, 8).transpose(0, 2, 1, 3).reshape(80, 80)
    return ((rows + 1) * 127.5).clip(0, 255).astype(np.uint8).repeat(6, 0).repeat(6, 1)


def write_png(path: str, grey: Any) -> None:
    """Write an image of bytes to a PNG file."""

    def chunk(kind: bytes, content: bytes) -> bytes:
        check = zlib.crc32(kind + content)
        return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", check)

    height, width = grey.shape
    lines = b"".join(b"\0" + line.tobytes() for line in grey)
    header = struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    with open(path, "wb") as file:
        file.write(b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header))
        file.write(chunk(b"IDAT", zlib.compress(lines)) + chunk(b"IEND", b""))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--steps", type=int, default=1500)
    parser.add_argument("--out", default="digits.png")
    arguments = parser.parse_args()
    main(arguments.steps, arguments.out)
