"""What keeps ONNX models fast: what is stored, converted once, moved out of loops, or whole."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

import porism
from porism.base.errors import PorismError
from porism.frontends.onnx.imported_graph import Graph
from tests.frontends.onnx_models import model

rng = np.random.default_rng(7)


def graph_model(nodes: list[Any], inputs: list[Any], outputs: list[Any], **arrays: Any) -> Any:
    """Return a loaded model of nodes, with initializers by name."""
    initializers = [numpy_helper.from_array(array, name) for name, array in arrays.items()]
    graph = helper.make_graph(nodes, "g", inputs, outputs, initializers)
    sets = [helper.make_opsetid("", 21), helper.make_opsetid("com.microsoft", 1)]
    proto = helper.make_model(graph, opset_imports=sets, ir_version=10)
    return porism.onnx.load(proto.SerializeToString())


def floats(name: str, *shape: int) -> Any:
    return helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)


def kernels_of(net: Any, inputs: dict[str, Any]) -> list[str]:
    """Return the names of the kernels that a call runs, after one that computes constants."""
    net(inputs)
    with porism.profile(show=False) as profile:
        net(inputs)
    return [row.name for row in profile.rows for _ in range(row.runs)]


def test_an_upsampled_image_is_stored_before_a_convolution_reads_it() -> None:
    """Otherwise each tap divides indices, and the image is packed element by element."""
    w = rng.normal(size=(3, 8, 3, 3)).astype(np.float32)
    nodes = [
        helper.make_node("Resize", ["x", "", "scales"], ["y"], mode="nearest",
                         coordinate_transformation_mode="asymmetric", nearest_mode="floor"),
        helper.make_node("Conv", ["y", "w"], ["z"], pads=[1, 1, 1, 1]),
    ]  # fmt: skip
    scales = np.array([1, 1, 2, 2], np.float32)
    net = graph_model(nodes, [floats("x", 1, 8, 8, 8)], [floats("z", 1, 3, 16, 16)],
                      w=w, scales=scales)  # fmt: skip
    x = rng.normal(size=(1, 8, 8, 8)).astype(np.float32)
    names = kernels_of(net, {"x": x})
    assert sum(name.startswith(("copy", "map")) for name in names) == 1
    large = porism.conv2d(porism.asarray(x.repeat(2, 2).repeat(2, 3)), porism.asarray(w), padding=1)
    np.testing.assert_allclose(net(x=x)["z"].numpy(), large.numpy(), rtol=1e-5, atol=1e-5)


def test_pixels_made_of_channels_are_copied_after_the_convolution() -> None:
    """Sums whose last axis has two elements would fill two lanes of a vector."""
    w = rng.normal(size=(12, 8, 3, 3)).astype(np.float32)
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["y"], pads=[1, 1, 1, 1]),
        helper.make_node("DepthToSpace", ["y"], ["z"], blocksize=2, mode="CRD"),
    ]
    net = graph_model(nodes, [floats("x", 1, 8, 6, 6)], [floats("z", 1, 3, 12, 12)], w=w)
    x = rng.normal(size=(1, 8, 6, 6)).astype(np.float32)
    assert sorted(name.split()[0] for name in kernels_of(net, {"x": x})) == ["copy", "sum"]
    y = porism.conv2d(porism.asarray(x), porism.asarray(w), padding=1).numpy()
    wanted = y.reshape(1, 3, 2, 2, 6, 6).transpose(0, 1, 4, 2, 5, 3).reshape(1, 3, 12, 12)
    np.testing.assert_allclose(net(x=x)["z"].numpy(), wanted, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(("rows", "kernels"), [(32, 1), (1, 1)])
def test_weights_of_a_product_are_dequantized_once(rows: int, kernels: int) -> None:
    """A kernel of each call that converts them would take as long as the product."""
    w = rng.integers(-127, 128, (256, 320)).astype(np.int8)
    nodes = [
        helper.make_node("DequantizeLinear", ["w", "scale"], ["f"]),
        helper.make_node("MatMul", ["x", "f"], ["y"]),
    ]
    net = graph_model(nodes, [floats("x", rows, 256)], [floats("y", rows, 320)],
                      w=w, scale=np.array(0.125, np.float32))  # fmt: skip
    x = rng.integers(-8, 8, (rows, 256)).astype(np.float32)
    assert len(kernels_of(net, {"x": x})) == kernels
    assert np.array_equal(net(x=x)["y"].numpy(), x @ (w.astype(np.float32) * 0.125))


@pytest.mark.parametrize("k", [64, 3000])
@pytest.mark.parametrize("extreme", [False, True])
def test_sums_of_bytes_are_exact(k: int, extreme: bool) -> None:
    """Floats hold them only up to 2^24: 3000 products of 255 and 127 exceed that."""
    x = (np.full((4, k), 255) if extreme else rng.integers(0, 256, (4, k))).astype(np.uint8)
    w = (np.full((k, 5), 127) if extreme else rng.integers(-128, 128, (k, 5))).astype(np.int8)
    x[:, ::7] = 254
    info = helper.make_tensor_value_info
    nodes = [
        helper.make_node("MatMulInteger", ["x", "w", "a", "b"], ["s"]),
        helper.make_node("Cast", ["s"], ["f"], to=TensorProto.FLOAT),
    ]
    net = graph_model(
        nodes, [info("x", TensorProto.UINT8, (4, k))],
        [info("s", TensorProto.INT32, (4, 5)), floats("f", 4, 5)],
        w=w, a=np.array(3, np.uint8), b=np.array(-1, np.int8),
    )  # fmt: skip
    wanted = (x.astype(np.int64) - 3) @ (w.astype(np.int64) + 1)
    outputs = net(x=x)
    assert np.array_equal(outputs["s"].numpy(), wanted)
    assert np.array_equal(outputs["f"].numpy(), wanted.astype(np.float32))


@pytest.mark.parametrize("weights", [17, 200])
def test_convolutions_of_bytes_are_exact(weights: int) -> None:
    x = rng.integers(0, 256, (1, weights, 6, 7)).astype(np.uint8)
    w = rng.choice(np.array([-128, 127], np.int8), (3, weights, 3, 3))
    info = helper.make_tensor_value_info
    nodes = [helper.make_node("ConvInteger", ["x", "w", "a"], ["y"], pads=[1, 1, 1, 1])]
    net = graph_model(
        nodes, [info("x", TensorProto.UINT8, x.shape)],
        [info("y", TensorProto.INT32, (1, 3, 6, 7))], w=w, a=np.array(128, np.uint8),
    )  # fmt: skip
    padded = np.pad(x.astype(np.int64) - 128, [(0, 0), (0, 0), (1, 1), (1, 1)])
    windows = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), (2, 3))
    wanted = np.einsum("bchwij,ocij->bohw", windows, w.astype(np.int64))
    assert np.array_equal(net(x=x)["y"].numpy(), wanted)


@pytest.mark.parametrize("zero", [0, 5])
def test_a_quantized_layer_of_states(zero: int) -> None:
    """States are multiplied as bytes if the weights have no zero point, else as floats."""
    steps, size, hidden = 3, 4, 8
    w = rng.integers(-127, 128, (1, size, 4 * hidden)).astype(np.int8)
    r = rng.integers(-127, 128, (1, hidden, 4 * hidden)).astype(np.int8)
    scales = [np.array([0.01], np.float32), np.array([0.02], np.float32)]
    zeros = [np.array([0], np.int8), np.array([zero], np.int8)]
    names = ["x", "w", "r", "", "", "", "", "", "ws", "wz", "rs", "rz"]
    node = helper.make_node(
        "DynamicQuantizeLSTM", names, ["y"], domain="com.microsoft", hidden_size=hidden
    )
    net = graph_model(
        [node], [floats("x", steps, 1, size)], [floats("y", steps, 1, 1, hidden)], w=w, r=r,
        ws=scales[0], wz=zeros[0], rs=scales[1], rz=zeros[1],
    )  # fmt: skip
    x = rng.normal(size=(steps, 1, size)).astype(np.float32)
    wanted = quantized_lstm(x, w[0], r[0].astype(np.int64) - zero, 0.01, 0.02)
    np.testing.assert_allclose(net(x=x)["y"].numpy()[:, 0, 0], wanted, atol=2e-2)


def quantized_lstm(x: Any, w: Any, r: Any, w_scale: float, r_scale: float) -> Any:
    """Return the states of an LSTM whose inputs and states are rounded to 8 bits."""

    def product(v: Any, weights: Any, scale: float) -> Any:
        low, high = min(v.min(), 0), max(v.max(), 0)
        step = (high - low) / 255 or 1.0
        zero = np.clip(np.rint(-low / step), 0, 255)
        q = np.clip(np.rint(v / step) + zero, 0, 255) - zero
        return (q.astype(np.int64) @ weights.astype(np.int64)) * (scale * step)

    def sigmoid(v: Any) -> Any:
        return 1 / (1 + np.exp(-v))

    inputs = product(x[:, 0], w, w_scale)
    h = c = np.zeros(r.shape[0])
    states = []
    for own in inputs:
        i, o, f, g = np.split(own + product(h, r, r_scale), 4)
        c = sigmoid(f) * c + sigmoid(i) * np.tanh(g)
        h = sigmoid(o) * np.tanh(c)
        states.append(h)
    return np.array(states)


LOOP = """
g (float[4, 3] x, float stop) => (float[4, 2] last, float[3, 2] same, float[k, 4, 2] all)
<float[3, 2] w = {1, 2, 3, 4, 5, 6}, float zero = {0}, bool go = {1}, int64 most = {9}>
{
  start = Constant <value = float[4, 2] {0, 0, 0, 0, 0, 0, 0, 0}> ()
  last, kept, same, all = Loop <body = step (
    int64 i, bool c, float[4, 2] sum, float[4, 3] own, float[3, 2] weight
  ) => (bool more, float[4, 2] next, float[4, 3] own, float[3, 2] weight, float[4, 2] term)
  {
    product = MatMul(own, weight)
    next = Add(sum, product)
    term = Mul(product, next)
    largest = ReduceMax <keepdims = 0> (next)
    more = Less(largest, stop)
  }> (most, go, start, x, w)
}
"""


@pytest.mark.parametrize("stop", [-100.0, 40.0, 1e9])
def test_what_no_iteration_changes_is_computed_before_the_loop(stop: float) -> None:
    """States that are passed on are those around the loop, also where results name them."""
    net = model(LOOP)
    (loop,) = [node for node in net.file.graph.nodes if node.op == "Loop"]
    body = loop.attributes["body"]
    assert isinstance(body, Graph)
    assert [node.op for node in body.nodes] == ["Add", "Mul", "ReduceMax", "Less"]
    assert body.inputs == ["i", "c", "sum"]
    x = rng.integers(0, 3, (4, 3)).astype(np.float32)
    outputs = net(x=x, stop=np.float32(stop))
    w = np.arange(1, 7, dtype=np.float32).reshape(3, 2)
    total, terms = np.zeros((4, 2), np.float32), []
    for _ in range(9):
        total = total + x @ w
        terms.append(x @ w * total)
        if not total.max() < stop:
            break
    assert np.array_equal(outputs["last"].numpy(), total)
    assert np.array_equal(outputs["same"].numpy(), w)
    assert np.array_equal(outputs["all"].numpy(), np.array(terms))


def test_a_node_without_inputs_is_refused() -> None:
    """What is stored is decided from nodes that may be malformed."""
    net = graph_model([helper.make_node("Cast", [], ["y"], to=1)], [], [floats("y")])
    with pytest.raises(PorismError):
        net({})


def test_bodies_with_the_same_names_are_told_apart() -> None:
    """Both products are named p; the second stays in its loop, or would replace the first."""
    body = """body = b (int64 i, bool c, float[2, 2] s) => (bool d, float[2, 2] t) {{
      d = Identity(c) p = MatMul(x, {0}) t = Add(s, p) }}"""
    net = model(f"""
g (float[2, 2] x, float[2, 2] y) => (float[2, 2] a, float[2, 2] b)
<int64 most = {{3}}, bool go = {{1}}>
{{
  a = Loop <{body.format("x")}> (most, go, x)
  b = Loop <{body.format("y")}> (most, go, x)
}}
""")
    x, y = (rng.integers(0, 5, (2, 2)).astype(np.float32) for _ in range(2))
    outputs = net(x=x, y=y)
    assert np.array_equal(outputs["a"].numpy(), x + 3 * (x @ x))
    assert np.array_equal(outputs["b"].numpy(), x + 3 * (x @ y))
