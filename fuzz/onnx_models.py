"""ONNX fuzzer: the bytes of small models are mutated; each runs, or raises an error for users.

    ./dev fuzz onnx_models --minutes 10

A mutated model that raises any other error, or crashes the process, is a finding: its seed and
number are printed before it is tried. Messages are checked to say why.
"""

from __future__ import annotations

import argparse
import random
import sys
import time
import traceback
import warnings
from collections.abc import Iterator
from typing import Any, Final

import numpy as np
import onnx.parser

import porism
from porism.base.errors import PorismError

MODELS: Final = (
    """g (float[2, 3] x) => (float[2, 2] y) <float[3, 2] w = {1, 2, 3, 4, 5, 6}>
    { h = MatMul(x, w) y = Relu(h) }""",
    """g (float[1, 1, 4, 4] x) => (float[1, 1, 2, 2] y) <float[1, 1, 3, 3] w = {1,2,3,4,5,6,7,8,9}>
    { y = Conv<kernel_shape = [3, 3]>(x, w) }""",
    """g (float[4] x) => (float[A] y) <int64[2] s = {2, -1}, int64[1] r = {2}, int64 n = {1}>
    { a = Reshape(x, s) b = Tile(x, r) c = Identity(b) d = Shape(a) e = Gather(d, n)
      y = Pad(x, s) }""",
    """g (float[2] x) => (float[2] y) <int64 n = {3}>
    { c = Constant<value = bool {1}>()
      y = Loop(n, c, x) <body = b (int64 i, bool c_in, float[2] v) => (bool c_out, float[2] w)
      { c_out = Identity(c_in) w = Add(v, v) }> }""",
    """g (float[1, 1, 2, 2] x) => (float[1, 1, 4, 4] y) <float[4] s = {1, 1, 2, 2}>
    { y = Resize<mode = "linear">(x, , s) }""",
    """g (float[3, 1, 2] x) => (float[3, 1, 1, 2] y)
    <float[1, 8, 2] w = {1,2,3,4,5,6,7,8,1,2,3,4,5,6,7,8},
     float[1, 8, 2] r = {1,2,3,4,5,6,7,8,1,2,3,4,5,6,7,8}>
    { y = LSTM<hidden_size = 2>(x, w, r) }""",
    """g (uint8[4] x) => (float[4] y) <float s = {0.5}, uint8 z = {3}>
    { a = DequantizeLinear(x, s, z) b = QuantizeLinear(a, s, z) y = Cast<to = 1>(b) }""",
    """g (float[6] x, int64[3] i) => (float[3] y) <int64[1] a = {0}, int64[1] e = {4}>
    { s = Slice(x, a, e) g = Gather(s, i) k = Constant<value_int = 2>()
      h, j = TopK(g, a) u = ReduceSum(h) v = Concat<axis = 0>(g, u) y = Softmax(v) }""",
)
"""The models that are mutated."""


def messages() -> list[bytes]:
    """Return the bytes of the models."""
    head = '<ir_version: 10, opset_import: ["": 21]>'
    return [onnx.parser.parse_model(f"{head}\n{text}").SerializeToString() for text in MODELS]


def mutated(data: bytes, rng: random.Random) -> bytes:
    """Return bytes with a few changed, removed, repeated or inserted."""
    result = bytearray(data)
    for _ in range(rng.choice((1, 1, 2, 4))):
        at = rng.randrange(len(result))
        kind = rng.randrange(5)
        if kind == 0:
            result[at] = rng.randrange(256)
        elif kind == 1:
            result[at] ^= 1 << rng.randrange(8)
        elif kind == 2:
            del result[at : at + rng.randrange(1, 9)]
        elif kind == 3:
            result[at:at] = result[at : at + rng.randrange(1, 17)]
        else:
            result[at:at] = bytes(rng.choice((0, 1, 127, 128, 255)) for _ in range(3))
        if not result:
            return b""
    return bytes(result)


NUMBERS: Final = (0, 1, 2, 3, 4, 5, 7, 8, 9, 16, 21, 63, 100, 1000, 2**31, 2**40, 2**62)


def _parts(message: Any) -> Iterator[tuple[Any, Any, int | None]]:
    """Yield every field of a message and those inside: the holder, the field, and a position."""
    for field, value in message.ListFields():
        if field.is_repeated:
            for k, item in enumerate(value):
                yield message, field, k
                if field.message_type is not None:
                    yield from _parts(item)
        else:
            yield message, field, None
            if field.message_type is not None:
                yield from _parts(value)


def edited(data: bytes, rng: random.Random) -> bytes:
    """Return a model with a few numbers, names, nodes or other parts changed."""
    message = onnx.ModelProto.FromString(data)
    for _ in range(rng.choice((1, 1, 1, 2, 3))):
        parts = list(_parts(message))
        if not parts:
            break
        holder, field, at = rng.choice(parts)
        words = [v for h, f, k in parts if isinstance(v := _value(h, f, k), str)]
        old = _value(holder, field, at)
        if field.message_type is not None or rng.random() < 0.1:
            if at is None:
                holder.ClearField(field.name)
            elif rng.random() < 0.5:
                del getattr(holder, field.name)[at]
            else:
                getattr(holder, field.name).append(old)
            continue
        new: Any = old
        if isinstance(old, bool | int):
            new = rng.choice(NUMBERS) * rng.choice((1, 1, 1, -1))
        elif isinstance(old, float):
            new = rng.choice((0.0, -1.0, 1e30, float("nan"), float("inf"), 0.5))
        elif isinstance(old, str):
            new = rng.choice([*words, "", "Relu", "Conv", "Loop", "x" * 40])
        elif isinstance(old, bytes):
            new = mutated(old, rng) if old else b"1234"
        try:
            if at is None:
                setattr(holder, field.name, new)
            else:
                getattr(holder, field.name)[at] = new
        except ValueError:
            continue  # a number out of the range of its field
    return bytes(message.SerializeToString())


def _value(holder: Any, field: Any, at: int | None) -> Any:
    value = getattr(holder, field.name)
    return value if at is None else value[at]


def inputs_of(net: porism.onnx.Model) -> dict[str, Any]:
    found = {}
    for name, info in net.inputs.items():
        shape = tuple(n if isinstance(n, int) and n < 64 else 2 for n in info.shape or ())
        if np.prod(shape, dtype=float) > 1e6:
            shape = ()
        known = info.dtype not in ("unknown", "string", "sequence", "optional", "map")
        found[name] = np.ones(shape, info.dtype if known else "float32")
    return found


def try_model(data: bytes) -> str:
    """Load and run a model; return "ran", "refused", or what else went wrong."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            net = porism.onnx.load(data)
            net(inputs_of(net))
        return "ran"
    except PorismError as error:
        return "refused" if error.why else f"a message without its reason: {error}"
    except Exception:
        return traceback.format_exc()


def examples(seed: int) -> Iterator[tuple[int, bytes]]:
    """Yield mutated models without end, with the number of each."""
    originals = messages()
    number = 0
    while True:
        rng = random.Random(f"{seed} {number}")
        original = originals[number % len(originals)]
        yield number, mutated(original, rng) if rng.random() < 0.3 else edited(original, rng)
        number += 1


def main() -> int:
    """Mutate models for some minutes, print findings, and return 1 if there is one."""
    parser = argparse.ArgumentParser(prog="./dev fuzz onnx_models", description=__doc__)
    parser.add_argument("--minutes", type=float, default=1)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--first", type=int, default=0, help="start with this example")
    options = parser.parse_args()
    until = time.monotonic() + 60 * options.minutes
    counts: dict[str, int] = {}
    for number, data in examples(options.seed):
        if time.monotonic() > until:
            break
        if number < options.first:
            continue
        outcome = try_model(data)
        if outcome not in ("ran", "refused"):
            print(f"--seed {options.seed} --first {number}: {data.hex()}\n{outcome}", flush=True)
            outcome = "findings"
        counts[outcome] = counts.get(outcome, 0) + 1
    print(", ".join(f"{n} {word}" for word, n in sorted(counts.items())))
    return 1 if counts.get("findings") else 0


if __name__ == "__main__":
    sys.exit(main())
