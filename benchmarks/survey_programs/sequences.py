"""Recurrent networks, attention, and what transformers do around it."""

from __future__ import annotations

import math

from benchmarks.cpu_operations import Array
from benchmarks.cpu_workloads import Workload
from benchmarks.survey_programs.entry import Draw, Operations, entry, normal, positive, whole


def weight(before: int, after: int) -> Draw:
    return normal(before, after, scale=1 / math.sqrt(before))


def lstm_cell(
    o: Operations, x: Array, h: Array, c: Array, w: Array, u: Array, b: Array
) -> tuple[Array, Array]:
    gates = x @ w + h @ u + b
    width = h.shape[-1]
    i, f, g, out = (gates[:, k * width : (k + 1) * width] for k in range(4))
    c = o.sigmoid(f) * c + o.sigmoid(i) * o.tanh(g)
    return o.sigmoid(out) * o.tanh(c), c


def lstm_sequence(
    o: Operations, x: Array, h: Array, c: Array, w: Array, u: Array, b: Array
) -> Array:
    """Over the first axis."""
    outputs = []
    for step in range(x.shape[0]):
        h, c = lstm_cell(o, x[step], h, c, w, u, b)
        outputs.append(h)
    return o.stack(outputs, 0)


def gru_cell(o: Operations, x: Array, h: Array, w: Array, u: Array) -> Array:
    width = h.shape[-1]
    a, b = x @ w, h @ u
    reset = o.sigmoid(a[:, :width] + b[:, :width])
    update = o.sigmoid(a[:, width : 2 * width] + b[:, width : 2 * width])
    new = o.tanh(a[:, 2 * width :] + reset * b[:, 2 * width :])
    return (1 - update) * new + update * h


def gru_sequence(o: Operations, x: Array, h: Array, w: Array, u: Array) -> Array:
    for step in range(x.shape[0]):
        h = gru_cell(o, x[step], h, w, u)
    return h


def rnn_sequence(o: Operations, x: Array, h: Array, w: Array, u: Array) -> Array:
    for step in range(x.shape[0]):
        h = o.tanh(x[step] @ w + h @ u)
    return h


def state_space(o: Operations, x: Array, a: Array, b: Array, c: Array) -> Array:
    """h = a h + b x, y = c h, a step after the other."""
    h = b * x[0][:, None]
    outputs = []
    for step in range(x.shape[0]):
        h = a * h + b * x[step][:, None]
        outputs.append((h * c).sum(-1))
    return o.stack(outputs, 0)


def lstm(batch: int, width: int, length: int = 0) -> Workload:
    states = {"h": normal(batch, width), "c": normal(batch, width)}
    weights = {"w": weight(width, 4 * width), "u": weight(width, 4 * width), "b": normal(4 * width)}
    if not length:
        return entry(lstm_cell, x=normal(batch, width), **states, **weights)
    return entry(lstm_sequence, x=normal(length, batch, width), **states, **weights)


def attention(
    batch: int, heads: int, queries: int, keys: int, width: int, causal: bool = False
) -> Workload:
    def run(o: Operations, q: Array, k: Array, v: Array) -> Array:
        return o.attend(q, k, v, causal=causal)

    k = normal(batch, heads, keys, width)
    return entry(run, q=normal(batch, heads, queries, width), k=k, v=k)


def grouped(heads: int, fewer: int, queries: int, keys: int, width: int) -> Workload:
    k = normal(1, fewer, keys, width)
    run = lambda o, q, k, v: o.grouped_attend(q, k, v)  # noqa: E731
    return entry(run, q=normal(1, heads, queries, width), k=k, v=k)


def masked_attention(o: Operations, q: Array, k: Array, v: Array, lengths: Array) -> Array:
    """To as many keys as each sequence of the batch has."""
    seen = o.numbers(q, k.shape[2], "int64") < lengths[:, None]
    return o.attend(q, k, v, seen[:, None, None, :])


def biased_attention(o: Operations, q: Array, k: Array, v: Array, bias: Array) -> Array:
    return o.attend(q, k, v, bias)


def windowed_attention(o: Operations, q: Array, k: Array, v: Array) -> Array:
    """Each query to the 64 keys before it."""
    rows, columns = o.numbers(q, q.shape[2])[:, None], o.numbers(q, k.shape[2])[None, :]
    return o.attend(q, k, v, (columns <= rows) & (columns > rows - 64))


def linear_attention(o: Operations, q: Array, k: Array, v: Array) -> Array:
    q, k = o.relu(q) + 0.01, o.relu(k) + 0.01
    state = o.einsum("bhnd,bhne->bhde", k, v)
    norm = o.einsum("bhnd,bhd->bhn", q, k.sum(2))
    return o.einsum("bhnd,bhde->bhne", q, state) / norm[..., None]


def attention_layer(o: Operations, x: Array, joint: Array, output: Array) -> Array:
    batch, length, width = x.shape
    heads = o.reshape(x @ joint, (batch, length, 3, 8, width // 8))
    q, k, v = (o.permute(heads[:, :, i], (0, 2, 1, 3)) for i in range(3))
    y = o.permute(o.attend(q, k, v, causal=True), (0, 2, 1, 3))
    return o.reshape(y, (batch, length, width)) @ output


def decode_layer(
    o: Operations, x: Array, joint: Array, output: Array, keys: Array, values: Array, place: Array
) -> tuple[Array, Array, Array]:
    """One token: its key and value written into the cache, then attention to all of it."""
    heads, width = keys.shape[1], keys.shape[2]
    q, k, v = (o.reshape(x @ joint, (3, heads, width))[i] for i in range(3))
    keys, values = o.set_rows(keys, place, k[None]), o.set_rows(values, place, v[None])
    seen = o.numbers(x, keys.shape[0], "int64") <= place
    scores = o.einsum("hd,nhd->hn", q, keys) / width**0.5
    scores = o.where(seen, scores, -1e9)
    y = o.einsum("hn,nhd->hd", o.softmax(scores), values)
    return o.reshape(y, (1, heads * width)) @ output, keys, values


def rotary(o: Operations, x: Array, cosines: Array, sines: Array) -> Array:
    """Pairs of neighbouring features rotated."""
    even, odd = x[..., 0::2], x[..., 1::2]
    both = o.stack([even * cosines - odd * sines, even * sines + odd * cosines], -1)
    return o.reshape(both, x.shape)


def swiglu(o: Operations, x: Array, gate: Array, up: Array, down: Array) -> Array:
    return (o.silu(x @ gate) * (x @ up)) @ down


def geglu(o: Operations, x: Array, w: Array) -> Array:
    y = x @ w
    return o.gelu(y[:, : y.shape[1] // 2]) * y[:, y.shape[1] // 2 :]


def experts(o: Operations, x: Array, route: Array, all_of_them: Array) -> Array:
    """Each row by the expert that its largest score names, for few rows."""
    chosen = o.position_of_largest(x @ route, -1)
    return o.einsum("bd,bde->be", x, o.select(all_of_them, chosen, 0))


def embedded(o: Operations, words: Array, table: Array, places: Array, w: Array, b: Array) -> Array:
    return o.layer_norm(o.take(table, words) + places, w, b)


def greedy(o: Operations, x: Array, table: Array) -> Array:
    """The word whose row has the largest product."""
    return o.position_of_largest(x @ o.permute(table, (1, 0)), -1)


PROGRAMS: dict[str, Workload] = {
    "lstm_step_1": lstm(1, 512),
    "lstm_step_32": lstm(32, 256),
    "lstm_sequence": lstm(16, 128, 16),
    "gru_step_8": entry(
        gru_cell, x=normal(8, 256), h=normal(8, 256), w=weight(256, 768), u=weight(256, 768)
    ),
    "gru_sequence": entry(
        gru_sequence, x=normal(16, 8, 128), h=normal(8, 128), w=weight(128, 384), u=weight(128, 384)
    ),
    "rnn_sequence": entry(
        rnn_sequence, x=normal(32, 32, 128), h=normal(32, 128), w=weight(128, 128),
        u=weight(128, 128),
    ),
    "state_space_sequence": entry(
        state_space, x=normal(32, 512), a=positive(512, 16), b=normal(512, 16), c=normal(512, 16),
        tolerance=1e-3,
    ),
    "attention_causal_512": attention(1, 12, 512, 512, 64, causal=True),
    "attention_causal_1024": attention(1, 8, 1024, 1024, 64, causal=True),
    "attention_batch_128": attention(8, 8, 128, 128, 64),
    "attention_width_128": attention(1, 8, 256, 256, 128),
    "attention_width_32": attention(4, 8, 197, 197, 32),
    "attention_cross": attention(2, 8, 64, 1024, 64),
    "attention_grouped": grouped(16, 4, 256, 256, 64),
    "decode_attention": attention(1, 12, 1, 1024, 64),
    "decode_attention_batch": attention(8, 12, 1, 512, 64),
    "decode_attention_grouped": grouped(32, 8, 1, 1024, 128),
    "decode_layer": entry(
        decode_layer, x=normal(1, 768), joint=weight(768, 2304), output=weight(768, 768),
        keys=normal(512, 12, 64), values=normal(512, 12, 64), place=whole(500, 1, low=300),
    ),
    "attention_padded": entry(
        masked_attention, q=normal(4, 8, 128, 64), k=normal(4, 8, 128, 64), v=normal(4, 8, 128, 64),
        lengths=whole(128, 4, low=40),
    ),
    "attention_bias": entry(
        biased_attention, q=normal(2, 8, 196, 64), k=normal(2, 8, 196, 64), v=normal(2, 8, 196, 64),
        bias=normal(1, 8, 196, 196),
    ),
    "attention_window": entry(
        windowed_attention, q=normal(1, 8, 512, 64), k=normal(1, 8, 512, 64),
        v=normal(1, 8, 512, 64),
    ),
    "attention_linear": entry(
        linear_attention, q=normal(2, 8, 512, 64), k=normal(2, 8, 512, 64), v=normal(2, 8, 512, 64)
    ),
    "attention_layer": entry(
        attention_layer, x=normal(2, 128, 512), joint=weight(512, 1536), output=weight(512, 512)
    ),
    "rotary": entry(
        rotary, x=normal(8, 512, 64), cosines=normal(512, 32), sines=normal(512, 32)
    ),
    "swiglu_batch_4": entry(
        swiglu, x=normal(4, 512), gate=weight(512, 1376), up=weight(512, 1376),
        down=weight(1376, 512),
    ),
    "swiglu_batch_128": entry(
        swiglu, x=normal(128, 512), gate=weight(512, 1376), up=weight(512, 1376),
        down=weight(1376, 512), weights=True,
    ),
    "geglu": entry(geglu, x=normal(256, 512), w=weight(512, 2048)),
    "experts": entry(
        experts, x=normal(4, 256), route=normal(256, 8), all_of_them=normal(8, 256, 512, scale=0.06)
    ),
    "embedding_layer_norm": entry(
        embedded, words=whole(30_000, 8, 128), table=normal(30_000, 256), places=normal(128, 256),
        w=normal(256), b=normal(256),
    ),
    "greedy_word": entry(greedy, x=normal(1, 256), table=normal(32_000, 256), tolerance=0),
}  # fmt: skip
