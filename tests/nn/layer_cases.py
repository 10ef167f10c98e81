"""Cases of layers: what is built, and on which inputs it is called; the same in PyTorch.

Weights and inputs follow a formula, so that a recording of PyTorch's results needs no weights.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class LayerCase:
    """A layer, its arguments, the shapes of its inputs, and keywords of the call."""

    layer: str
    args: tuple[Any, ...] = ()
    options: dict[str, Any] = field(default_factory=dict)
    inputs: tuple[tuple[int, ...], ...] = ((2, 3),)
    call: dict[str, Any] = field(default_factory=dict)
    training: bool = False
    integers: int = 0
    """If above 0, inputs are integers below it."""
    target: str = ""
    """How the last input is made: "labels" or "probabilities"; by default like the first."""

    @property
    def name(self) -> str:
        """A readable name, unique among the cases."""
        options = "".join(f",{k}={v}" for k, v in (self.options | self.call).items())
        args = ",".join(map(str, self.args))
        shapes = "x".join("_".join(map(str, s)) for s in self.inputs)
        return f"{self.layer}({args}{options}){shapes}{'train' if self.training else ''}"


def values(sizes: tuple[int, ...], seed: int) -> Array:
    """Return numbers from -1 to 1 that look random."""
    count = int(np.prod(sizes))
    wave: Array = np.sin((np.arange(count) + 1) * (seed + 2.5) * 0.7351)
    return wave.reshape(sizes).astype(np.float32)


def inputs_of(case: LayerCase) -> list[Array]:
    """Return the inputs of a case."""
    if case.integers:
        return [(np.arange(np.prod(s)) * 7 % case.integers).reshape(s) for s in case.inputs]
    arrays = [values(sizes, seed) for seed, sizes in enumerate(case.inputs)]
    if case.target == "labels":
        arrays[-1] = np.arange(np.prod(case.inputs[-1])).reshape(case.inputs[-1]) % 3
    if case.target == "probabilities":
        arrays[-1] = np.abs(arrays[-1])
        if case.layer == "BCELoss":
            arrays[0] = np.abs(arrays[0]) * 0.9 + 0.05
    return arrays


def sampling_step(count: int) -> int:
    """Return which elements of a result are recorded: every one, or every k-th of many."""
    step = max(1, count // 40)
    return step + (step % 2 == 0)  # odd, so that all axes are sampled


def weight_values(name: str, sizes: tuple[int, ...], position: int) -> Array:
    """Return the value of a parameter or buffer, by its name and position in the state dict."""
    if name.endswith("num_batches_tracked"):
        return np.asarray(3, np.int64)
    wave = values(sizes, position + 5) * 0.5
    return np.abs(wave) + 0.5 if name.endswith("running_var") else wave


def _with_dims(name: str, args: tuple[Any, ...], **options: Any) -> list[LayerCase]:
    """Return a case of a layer for one to three spatial axes."""
    return [LayerCase(f"{name}{d}d", args, options, ((2, 4, *[7, 6, 5][:d]),)) for d in (1, 2, 3)]


_X = (2, 5, 8)

CASES: Final = (
    LayerCase("Linear", (3, 4), inputs=((5, 3),)),
    LayerCase("Linear", (3, 4), {"bias": False}, inputs=((2, 5, 3),)),
    LayerCase("Linear", (3, 4), inputs=((3,),)),
    LayerCase("Bilinear", (3, 4, 2), inputs=((5, 3), (5, 4))),
    LayerCase("Embedding", (10, 3), {"padding_idx": 2}, inputs=((2, 4),), integers=10),
    LayerCase("Flatten", inputs=((2, 3, 4),)),
    LayerCase("Unflatten", (1, (3, 4)), inputs=((2, 12),)),
    *_with_dims("Conv", (4, 6, 3)),
    *_with_dims("Conv", (4, 6, 3), stride=2, padding=1, dilation=2, groups=2, bias=False),
    *_with_dims("Conv", (4, 6, 3), padding="same"),
    *_with_dims("Conv", (4, 6, 3), padding=2, padding_mode="circular"),
    *_with_dims("Conv", (4, 6, 2), padding="same", padding_mode="replicate"),
    *_with_dims("Conv", (4, 6, 3), padding=1, padding_mode="reflect"),
    *_with_dims("ConvTranspose", (4, 6, 3)),
    *_with_dims("ConvTranspose", (4, 6, 3), stride=2, padding=1, output_padding=1, groups=2),
    *_with_dims("ConvTranspose", (4, 6, 2), dilation=2, bias=False),
    *_with_dims("MaxPool", (2,)),
    *_with_dims("MaxPool", (3,), stride=2, padding=1, ceil_mode=True),
    *_with_dims("AvgPool", (3,), stride=2, padding=1, count_include_pad=False),
    *_with_dims("AdaptiveAvgPool", (3,)),
    *_with_dims("AdaptiveMaxPool", (2,)),
    *_with_dims("InstanceNorm", (4,), affine=True),
    *_with_dims("BatchNorm", (4,)),
    *[
        LayerCase(f"BatchNorm{d}d", (4,), inputs=((2, 4, *[3, 2, 2][:d]),), training=True)
        for d in (1, 2, 3)
    ],
    LayerCase("BatchNorm1d", (4,), {"momentum": None}, inputs=((6, 4),), training=True),
    LayerCase("BatchNorm1d", (4,), {"track_running_stats": False}, inputs=((6, 4),)),
    LayerCase("LayerNorm", (8,), inputs=(_X,)),
    LayerCase("LayerNorm", ((5, 8),), {"bias": False}, inputs=(_X,)),
    LayerCase("LayerNorm", (8,), {"elementwise_affine": False}, inputs=(_X,)),
    LayerCase("RMSNorm", (8,), inputs=(_X,)),
    LayerCase("RMSNorm", ((5, 8),), {"eps": 0.1}, inputs=(_X,)),
    LayerCase("GroupNorm", (2, 4), inputs=((2, 4, 5),)),
    LayerCase("MultiheadAttention", (8, 2), inputs=((5, 2, 8),) * 3),
    LayerCase("MultiheadAttention", (8, 2), {"batch_first": True}, inputs=(_X,) * 3),
    LayerCase("MultiheadAttention", (8, 4), {"bias": False}, inputs=((5, 8), (3, 8), (3, 8))),
    LayerCase(
        "MultiheadAttention", (8, 2), {"kdim": 3, "vdim": 4}, ((5, 2, 8), (6, 2, 3), (6, 2, 4))
    ),
    LayerCase(
        "MultiheadAttention",
        (8, 2),
        {"batch_first": True},
        inputs=(_X,) * 3,
        call={"need_weights": False},
    ),
    LayerCase(
        "MultiheadAttention",
        (8, 2),
        {"batch_first": True},
        inputs=(_X,) * 3,
        call={"average_attn_weights": False},
    ),
    *[
        LayerCase(kind, (3, 4), options, shapes)
        for kind in ("RNN", "LSTM", "GRU")
        for options, shapes in (
            ({}, ((5, 2, 3),)),
            ({"num_layers": 2, "bidirectional": True, "batch_first": True}, ((2, 5, 3),)),
            ({"bias": False}, ((5, 3),)),
        )
    ],
    LayerCase("LSTM", (3, 4), {"proj_size": 2, "num_layers": 2}, ((5, 2, 3),)),
    LayerCase("RNN", (3, 4), {"nonlinearity": "relu"}, ((5, 2, 3),)),
    *[
        LayerCase(name)
        for name in ("ReLU", "LeakyReLU", "Sigmoid", "SiLU", "Softplus", "GELU", "Tanh")
    ],
    LayerCase("GELU", options={"approximate": "tanh"}),
    LayerCase("Softmax", options={"dim": 1}),
    LayerCase("LogSoftmax", options={"dim": 0}),
    LayerCase("CrossEntropyLoss", inputs=((4, 3), (4,)), target="labels"),
    LayerCase(
        "CrossEntropyLoss", options={"label_smoothing": 0.1}, inputs=((4, 3), (4,)), target="labels"
    ),
    LayerCase("NLLLoss", inputs=((4, 3), (4,)), target="labels"),
    LayerCase("MSELoss", inputs=((4, 3), (4, 3))),
    LayerCase("MSELoss", options={"reduction": "sum"}, inputs=((4, 3), (4, 3))),
    LayerCase("L1Loss", options={"reduction": "none"}, inputs=((4, 3), (4, 3))),
    LayerCase("HuberLoss", options={"delta": 0.3}, inputs=((4, 3), (4, 3))),
    LayerCase("BCELoss", inputs=((4, 3), (4, 3)), target="probabilities"),
    LayerCase("BCEWithLogitsLoss", inputs=((4, 3), (4, 3)), target="probabilities"),
)
