"""Modules: their structure, their state, and what is refused."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest

import porism
from porism import nn
from porism.base.errors import PorismError, ShapeError


class Net(nn.Module):
    """A module with parameters in every kind of container, and one that is shared."""

    def __init__(self) -> None:
        self.first = nn.Linear(2, 2)
        self.layers = [nn.Linear(2, 2, bias=False), (nn.ReLU(), nn.Linear(2, 3))]
        self.by_name = {"a": nn.BatchNorm1d(3)}
        self.scale = nn.Parameter([1.0])
        self.tied = self.scale
        self.plain = porism.ones(4)

    def forward(self, x: Any) -> Any:
        return x


def test_names_are_paths_through_attributes_and_containers() -> None:
    net = Net()
    assert [name for name, _ in net.named_parameters()] == [
        "first.weight",
        "first.bias",
        "layers.0.weight",
        "layers.1.1.weight",
        "layers.1.1.bias",
        "by_name.a.weight",
        "by_name.a.bias",
        "scale",
    ]
    assert [name for name, _ in net.named_buffers()] == [
        "by_name.a.running_mean",
        "by_name.a.running_var",
        "by_name.a.num_batches_tracked",
    ]
    assert "tied" in net.state_dict()
    assert "plain" not in net.state_dict()
    assert [name for name, _ in net.named_modules()][:3] == ["", "first", "layers.0"]


def test_a_dataclass_can_be_a_module() -> None:
    @dataclasses.dataclass(eq=False)
    class Block(nn.Module):
        up: nn.Linear
        down: nn.Linear

        def forward(self, x: Any) -> Any:
            return self.down(self.up(x))

    block = Block(nn.Linear(2, 5), nn.Linear(5, 1))
    assert list(block.state_dict()) == ["up.weight", "up.bias", "down.weight", "down.bias"]
    assert block(porism.ones(3, 2)).shape == (3, 1)


def test_training_and_evaluation_reach_every_module() -> None:
    net = Net()
    assert net.training
    net.eval()
    assert not any(module.training for module in net.modules())
    net.train()
    assert all(module.training for module in net.modules())


def test_a_state_dict_is_loaded_by_names() -> None:
    a, b = Net(), Net()
    b.load_state_dict(a.state_dict())
    for name, tensor in a.state_dict().items():
        assert np.array_equal(tensor.numpy(), b.state_dict()[name].numpy())
    with porism.no_grad():
        b.first.weight.assign(porism.zeros(2, 2))
    assert a.first.weight.numpy().any(), "loaded weights are copies"


def test_names_that_differ_are_refused_and_nothing_is_loaded() -> None:
    layer = nn.Linear(2, 1)
    before = layer.weight.numpy()
    state = {"weight": np.zeros((1, 2)), "extra": np.zeros(1)}
    with pytest.raises(PorismError, match="does not fit Linear") as caught:
        layer.load_state_dict(state)
    assert caught.value.why == "missing: bias; unexpected: extra"
    assert np.array_equal(layer.weight.numpy(), before)
    result = layer.load_state_dict(state, strict=False)
    assert result == (["bias"], ["extra"])
    assert not layer.weight.numpy().any()


def test_sizes_that_differ_are_refused_and_nothing_is_loaded() -> None:
    layer = nn.Linear(2, 1)
    before = layer.weight.numpy()
    state = {"weight": np.zeros((1, 2)), "bias": np.zeros(3)}
    with pytest.raises(ShapeError, match="bias in a state dict has the shape"):
        layer.load_state_dict(state)
    assert np.array_equal(layer.weight.numpy(), before)


def test_floats_for_a_counter_are_refused() -> None:
    layer = nn.BatchNorm1d(1)
    state = {name: t.numpy() for name, t in layer.state_dict().items()}
    with pytest.raises(PorismError, match="num_batches_tracked in a state dict has floats"):
        layer.load_state_dict(state | {"num_batches_tracked": np.asarray(1.5)})


def test_parameters_take_the_type_of_the_module() -> None:
    layer = nn.BatchNorm1d(3).to("float64")
    dtypes = {name: t.dtype.name for name, t in layer.state_dict().items()}
    assert dtypes == {
        "weight": "float64",
        "bias": "float64",
        "running_mean": "float64",
        "running_var": "float64",
        "num_batches_tracked": "int64",
    }


def test_a_module_without_forward_says_so() -> None:
    with pytest.raises(PorismError, match="has no forward"):
        nn.Module()(1)


def test_containers_behave_as_lists_and_dicts() -> None:
    stack = nn.Sequential(nn.Linear(2, 3), nn.ReLU())
    stack.append(nn.Linear(3, 1))
    assert [type(m).__name__ for m in stack] == ["Linear", "ReLU", "Linear"]
    assert stack[-1] is stack[2]
    assert len(stack[:2]) == 2
    assert list(stack[1:].state_dict()) == ["1.weight", "1.bias"]
    named = nn.Sequential({"up": nn.Linear(2, 3), "act": nn.ReLU()})
    assert list(named.state_dict()) == ["up.weight", "up.bias"]
    several = nn.ModuleList([nn.ReLU()]).append(nn.Linear(1, 1))
    assert list(several.state_dict()) == ["1.weight", "1.bias"]
    assert isinstance(several[0], nn.ReLU)
    table = nn.ModuleDict({"x": nn.Linear(1, 1)})
    assert list(table) == ["x"]
    assert "x" in table


@pytest.mark.parametrize(
    ("build", "words"),
    [
        (lambda: nn.Conv2d(3, 4, 3, groups=2), "groups"),
        (lambda: nn.GroupNorm(2, 3), "groups"),
        (lambda: nn.MultiheadAttention(5, 2), "heads"),
        (lambda: nn.Embedding(3, 2, padding_idx=7), "padding_idx"),
        (lambda: nn.Dropout(2.0), "dropout"),
        (lambda: nn.GRU(2, 3, proj_size=1), "proj_size"),
        (lambda: nn.RNN(2, 3, nonlinearity="sin"), "nonlinearity"),
        (lambda: nn.LayerNorm(4)(porism.ones(2, 3)), "LayerNorm over"),
        (lambda: nn.LSTM(2, 3)(porism.ones(2, 5)), "LSTM of a tensor"),
        (lambda: nn.LSTM(2, 3)(porism.ones(4, 1, 2), (porism.ones(1, 1, 3),) * 2), ""),
        (lambda: nn.GRU(2, 3)(porism.ones(4, 1, 2), porism.ones(2, 1, 3)), "with a state"),
        (lambda: nn.BatchNorm2d(3)(porism.ones(2, 3)), "BatchNorm2d of a tensor"),
        (lambda: nn.BatchNorm1d(3)(porism.ones(1, 3)), "statistics of a batch"),
        (lambda: nn.init.kaiming_normal_(porism.ones(3)), "fan-in"),
        (lambda: nn.init.kaiming_normal_(porism.ones(3, 3), mode="in"), "mode"),
        (lambda: nn.init.calculate_gain("sine"), "gain"),
    ],
)
def test_what_makes_no_sense_is_refused(build: Any, words: str) -> None:
    if not words:
        build()
        return
    with pytest.raises(PorismError, match=words):
        build()


def test_dropout_drops_channels_whole_and_keeps_the_mean() -> None:
    porism.seed(3)
    x = porism.ones(64, 32, 4, 4)
    y = nn.Dropout2d(0.25)(x).numpy()
    per_channel = y.reshape(64 * 32, 16)
    assert (per_channel == per_channel[:, :1]).all()
    assert set(np.unique(y)) == {np.float32(0), np.float32(1 / 0.75)}
    assert abs(y.mean() - 1) < 0.05
    assert nn.Dropout2d(0.25).eval()(x).numpy().all()


def test_the_padding_row_of_an_embedding_is_not_trained() -> None:
    table = nn.Embedding(4, 2, padding_idx=-3)
    table(porism.asarray([[0, 1], [1, 3]])).sum().backward()
    assert table.weight.grad is not None
    assert table.weight.grad.tolist() == [[1, 1], [0, 0], [0, 0], [1, 1]]
    rows = porism.kernels(table(porism.asarray([0, 1])))
    assert len(rows) == 1
    bytes_ = porism.asarray(np.array([1, 44], np.uint8))  # which cannot be 300: 44 modulo 256
    table = nn.Embedding(301, 2, padding_idx=300)
    table(bytes_).sum().backward()
    assert table.weight.grad is not None
    assert table.weight.grad[44].tolist() == [1, 1]
