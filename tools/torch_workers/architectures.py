"""Architectures: models as people train and run them, of random weights, for the suite zoo.

Each function returns a model, its arguments and its keyword arguments. The libraries that have
them (torchvision, timm, transformers, diffusers) are imported when a model is made.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any

import torch
from torch import nn

Entry = Callable[[], tuple[Any, tuple[Any, ...], dict[str, Any]]]

ARCHITECTURES: dict[str, Entry] = {}
"""The architectures by name."""

growth = 0
"""How much larger than usual the inputs are: batches by so many, images by 32 pixels for each,
sequences by 5 words."""


def architecture(entry: Entry) -> Entry:
    """Register an architecture."""
    ARCHITECTURES[entry.__name__] = entry
    return entry


def _images(batch: int = 1, size: int = 128) -> torch.Tensor:
    return torch.randn(batch + growth, 3, size, size)


def _words(batch: int, length: int, count: int) -> torch.Tensor:
    return torch.randint(1, count, (batch + growth, length + 5 * growth))


def _vision(name: str, size: int = 128, **options: Any) -> Entry:
    def make() -> tuple[Any, tuple[Any, ...], dict[str, Any]]:
        models = _torchvision().models
        images = _images(size=size + 32 * growth)
        return getattr(models, name)(weights=None, **options), (images,), {}

    return make


def _torchvision() -> Any:
    """Return torchvision; its operator nms, which a wheel for another torch lacks, is declared."""
    try:
        return import_module("torchvision")
    except RuntimeError:
        for name in ("nms", "qnms"):
            torch.library.define(
                f"torchvision::{name}",
                "(Tensor dets, Tensor scores, float iou_threshold) -> Tensor",
            )
        return import_module("torchvision")


def _timm(name: str, **options: Any) -> Entry:
    def make() -> tuple[Any, tuple[Any, ...], dict[str, Any]]:
        _torchvision()  # timm imports it
        models = import_module("timm")
        return models.create_model(name, pretrained=False, **options), (_images(),), {}

    return make


ARCHITECTURES.update(
    resnet18=_vision("resnet18"),
    mobilenet_v3_small=_vision("mobilenet_v3_small"),
    densenet121=_vision("densenet121", size=96),
    squeezenet1_1=_vision("squeezenet1_1"),
    googlenet=_vision("googlenet", aux_logits=False, init_weights=False),
    swin_t=_vision("swin_t", size=112),
    efficientnet_b0=_timm("efficientnet_b0"),
    convnext_atto=_timm("convnext_atto"),
    vit_tiny=_timm("vit_tiny_patch16_224", img_size=128),
    deit_tiny_distilled=_timm("deit_tiny_distilled_patch16_224", img_size=128),
    mixer_s32=_timm("mixer_s32_224", img_size=128),
)


def _segmentation(name: str, batch: int) -> Entry:
    def make() -> tuple[Any, tuple[Any, ...], dict[str, Any]]:
        _torchvision()
        models = import_module("torchvision.models.segmentation")
        model = getattr(models, name)(weights=None, weights_backbone=None, num_classes=8)
        return model, (_images(batch, 128 + 32 * growth),), {}

    return make


ARCHITECTURES.update(
    lraspp_mobilenet_v3=_segmentation("lraspp_mobilenet_v3_large", 1),
    deeplabv3_mobilenet_v3=_segmentation("deeplabv3_mobilenet_v3_large", 2),
)


def _language(kind: str, model: str, options: dict[str, Any], inputs: Callable[[], Any]) -> Entry:
    def make() -> tuple[Any, tuple[Any, ...], dict[str, Any]]:
        _torchvision()  # transformers imports it
        library = import_module("transformers")
        config = getattr(library, f"{kind}Config")(**options)
        return getattr(library, f"{kind}{model}")(config), (), inputs()

    return make


_SMALL = {"vocab_size": 500, "use_cache": False}
ARCHITECTURES.update(
    bert=_language(
        "Bert",
        "ForMaskedLM",
        {
            "vocab_size": 1000,
            "hidden_size": 128,
            "num_hidden_layers": 2,
            "num_attention_heads": 2,
            "intermediate_size": 512,
        },
        lambda: {
            "input_ids": _words(2, 32, 1000),
            "attention_mask": torch.ones(2 + growth, 32 + 5 * growth, dtype=torch.long),
        },
    ),
    gpt2=_language(
        "GPT2",
        "LMHeadModel",
        {**_SMALL, "n_embd": 256, "n_layer": 2, "n_head": 4, "n_positions": 128},
        lambda: {"input_ids": _words(1, 64, 500)},
    ),
    llama=_language(
        "Llama",
        "ForCausalLM",
        {
            **_SMALL,
            "hidden_size": 256,
            "intermediate_size": 512,
            "num_hidden_layers": 2,
            "num_attention_heads": 8,
            "num_key_value_heads": 2,
        },
        lambda: {"input_ids": _words(1, 64, 500)},
    ),
    mixtral=_language(
        "Mixtral",
        "ForCausalLM",
        {
            **_SMALL,
            "hidden_size": 64,
            "intermediate_size": 128,
            "num_hidden_layers": 2,
            "num_attention_heads": 4,
            "num_key_value_heads": 2,
            "num_local_experts": 4,
        },
        lambda: {"input_ids": _words(1, 16, 500)},
    ),
    t5=_language(
        "T5",
        "ForConditionalGeneration",
        {**_SMALL, "d_model": 128, "d_kv": 32, "d_ff": 256, "num_layers": 2, "num_heads": 4},
        lambda: {"input_ids": _words(1, 24, 500), "decoder_input_ids": _words(1, 12, 500)},
    ),
)


@architecture
def vae() -> tuple[Any, tuple[Any, ...], dict[str, Any]]:
    """Return an autoencoder of images."""
    _torchvision()  # diffusers imports it
    library = import_module("diffusers")
    model = library.AutoencoderKL(
        down_block_types=("DownEncoderBlock2D",) * 2,
        up_block_types=("UpDecoderBlock2D",) * 2,
        block_out_channels=(32, 64),
        norm_num_groups=8,
        sample_size=32,
    )
    return model, (_images(size=32 + 32 * growth),), {"return_dict": False}


class Tagger(nn.Module):
    """A label for each word, by recurrence in both directions."""

    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Embedding(500, 64)
        self.recurrent = nn.LSTM(64, 64, 2, batch_first=True, bidirectional=True)
        self.labels = nn.Linear(128, 20)

    def forward(self, x: torch.Tensor) -> Any:
        """Return scores of labels."""
        return self.labels(self.recurrent(self.table(x))[0])


@architecture
def lstm_tagger() -> tuple[Any, tuple[Any, ...], dict[str, Any]]:
    """Return a tagger of words."""
    return Tagger(), (_words(2, 12, 500),), {}


@architecture
def gru() -> tuple[Any, tuple[Any, ...], dict[str, Any]]:
    """Return a recurrent layer."""
    return nn.GRU(32, 48, 1, batch_first=True), (torch.randn(2 + growth, 12 + 5 * growth, 32),), {}


class Recommender(nn.Module):
    """Sparse features by bags of rows, dense ones by a perceptron, and their products."""

    def __init__(self) -> None:
        super().__init__()
        self.dense = nn.Sequential(nn.Linear(13, 64), nn.ReLU(), nn.Linear(64, 16), nn.ReLU())
        self.bags = nn.ModuleList(nn.EmbeddingBag(1000, 16, mode="sum") for _ in range(4))
        self.top = nn.Sequential(nn.Linear(26, 64), nn.ReLU(), nn.Linear(64, 1))

    def forward(self, dense: Any, indices: Any, offsets: Any) -> Any:
        """Return a probability."""
        x = self.dense(dense)
        bags = [bag(indices[k], offsets[k]) for k, bag in enumerate(self.bags)]
        features = torch.stack([x, *bags], 1)
        products = torch.bmm(features, features.transpose(1, 2))
        row, column = torch.tril_indices(5, 5, -1)
        return torch.sigmoid(self.top(torch.cat([x, products[:, row, column]], 1)))


@architecture
def recommender() -> tuple[Any, tuple[Any, ...], dict[str, Any]]:
    """Return a recommender of sparse and dense features."""
    batch = 8 + growth
    offsets = torch.arange(0, 3 * batch, 3).repeat(4, 1)
    indices = torch.randint(0, 1000, (4, 3 * batch))
    return Recommender(), (torch.randn(batch, 13), indices, offsets), {}


class Unet(nn.Module):
    """Two levels down and up again, joined by skips."""

    def __init__(self) -> None:
        super().__init__()
        self.down = nn.ModuleList([_block(3, 16), _block(16, 32), _block(32, 64)])
        self.up = nn.ModuleList(
            [nn.ConvTranspose2d(64, 32, 2, 2), nn.ConvTranspose2d(32, 16, 2, 2)]
        )
        self.join = nn.ModuleList([_block(64, 32), _block(32, 16)])
        self.classes = nn.Conv2d(16, 2, 1)

    def forward(self, x: torch.Tensor) -> Any:
        """Return scores of classes for each pixel."""
        skips = []
        for level, block in enumerate(self.down):
            x = block(nn.functional.max_pool2d(x, 2) if level else x)
            skips.append(x)
        for up, join, skip in zip(self.up, self.join, skips[-2::-1], strict=True):
            x = join(torch.cat([skip, up(x)], 1))
        return self.classes(x)


def _block(before: int, after: int) -> nn.Module:
    convolution = nn.Conv2d(before, after, 3, padding=1, bias=False)
    return nn.Sequential(convolution, nn.BatchNorm2d(after), nn.ReLU(True))


@architecture
def unet() -> tuple[Any, tuple[Any, ...], dict[str, Any]]:
    """Return a network that segments images."""
    return Unet(), (_images(size=96 + 32 * growth),), {}


@architecture
def transformer() -> tuple[Any, tuple[Any, ...], dict[str, Any]]:
    """Return torch's own encoder and decoder."""
    model = nn.Transformer(64, 4, 2, 2, 128, batch_first=True, dropout=0.0)
    batch, length = 2 + growth, 12 + 5 * growth
    return model, (torch.randn(batch, length, 64), torch.randn(batch, 8 + growth, 64)), {}
