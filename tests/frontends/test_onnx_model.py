"""ONNX models as functions: inputs and outputs, open sizes, control flow, functions, errors."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import porism
from porism.base.errors import PorismError
from porism.frontends.onnx.imported_graph import Node
from porism.frontends.onnx.piecewise import PiecewiseProgram
from tests.frontends.onnx_models import model, proto

MLP = """
g (float[N, 3] x) => (float[N, 2] y)
<float[3, 2] w = {1, 2, 3, 4, 5, 6}>
{
  h = MatMul(x, w)
  y = Relu(h)
}
"""


def test_inputs_and_outputs_by_name() -> None:
    net = model(MLP)
    assert net.inputs == {"x": (("N", 3), "float32")}
    assert net.outputs["y"].shape == ("N", 2)
    assert net.outputs["y"].dtype == "float32"
    x = np.array([[1, 0, 0], [0, -1, 0]], np.float32)
    result = net({"x": x})
    assert list(result) == ["y"]
    assert isinstance(result["y"], porism.Tensor)
    assert result["y"].tolist() == [[1, 2], [0, 0]]
    assert net(x=porism.asarray(x))["y"].tolist() == [[1, 2], [0, 0]]
    assert net(x=x.tolist())["y"].tolist() == [[1, 2], [0, 0]]
    assert "x -> y" in repr(net)


def test_open_sizes_compile_a_program_each() -> None:
    net = model(MLP)
    for rows in (1, 4, 1, 0, 4):
        x = np.random.default_rng(rows).normal(size=(rows, 3)).astype(np.float32)
        w = np.arange(1, 7, dtype=np.float32).reshape(3, 2)
        np.testing.assert_allclose(net(x=x)["y"].numpy(), np.maximum(x @ w, 0), rtol=1e-6)
    assert net.programs == 3


def test_results_do_not_share_memory_with_inputs() -> None:
    net = model("g (float[N] x) => (float[N] y, float[N] z) { y = Identity(x) z = Identity(x) }")
    x = np.arange(4, dtype=np.float32)
    first = net(x=x)
    x[:] = 9
    assert first["y"].tolist() == [0, 1, 2, 3]
    assert net(x=x)["z"].tolist() == [9, 9, 9, 9]


def test_an_array_that_is_changed_in_place_is_read_again() -> None:
    net = model(MLP)
    x = np.ones((2, 3), np.float32)
    for value in (1, 2, 3):
        x[:] = value
        assert net(x=x)["y"].tolist() == [[9 * value, 12 * value]] * 2
    assert net(x=x[:1])["y"].tolist() == [[27, 36]]
    assert net(x=x[:, ::-1])["y"].tolist() == [[27, 36]] * 2


def test_weights_are_constants() -> None:
    net = model(MLP)
    x = np.ones((2, 3), np.float32)
    first = net(x=x)["y"].tolist()
    assert first == net(x=x)["y"].tolist() == [[9, 12], [9, 12]]


def test_shape_arithmetic_is_known() -> None:
    net = model("""
g (float[N, C, H] x) => (float[A, B] y)
<int64[1] minus = {-1}, int64 zero = {0}, int64 two = {2}>
{
  s = Shape(x)
  n = Gather(s, zero)
  h = Gather(s, two)
  twice = Mul(h, two)
  axes = Constant<value_ints = [0]>()
  rows = Unsqueeze(twice, axes)
  shape = Concat<axis = 0>(rows, minus)
  y = Reshape(x, shape)
}
""")
    x = np.arange(24, dtype=np.float32).reshape(2, 4, 3)
    assert net(x=x)["y"].shape == (6, 4)
    np.testing.assert_array_equal(net(x=x)["y"].numpy(), x.reshape(6, 4))


IF = """
g (float[N] x, int64 k) => (float[M] y)
{
  four = Constant<value_int = 4>()
  c = Greater(k, four)
  y = If(c) <
    then_branch = t () => (float[M] a) { a = Add(x, x) },
    else_branch = e () => (float[M] b) { b = Neg(x) }
  >
}
"""


def test_an_integer_input_decides_a_branch() -> None:
    net = model(IF)
    x = np.arange(3, dtype=np.float32)
    assert net(x=x, k=5)["y"].tolist() == [0, 2, 4]
    assert net(x=x, k=1)["y"].tolist() == [0, -1, -2]
    assert net(x=x, k=5)["y"].tolist() == [0, 2, 4]


IF_DATA = """
g (float[N] x) => (float[M] y)
{
  s = ReduceSum<keepdims = 0>(x)
  zero = Constant<value_float = 0.0>()
  c = Greater(s, zero)
  y = If(c) <
    then_branch = t () => (float[M] a) { a = Add(x, x) },
    else_branch = e () => (float[M] b) { b = BRANCH }
  >
}
"""


def test_a_branch_of_another_shape_that_depends_on_data() -> None:
    net = model(IF_DATA.replace("BRANCH", "Concat<axis = 0>(x, x)"))
    x = np.arange(3, dtype=np.float32)
    assert net(x=x)["y"].tolist() == [0, 2, 4]
    assert net(x=-x)["y"].tolist() == [0, -1, -2, 0, -1, -2]


def test_a_branch_that_depends_on_data() -> None:
    net = model(IF_DATA.replace("BRANCH", "Neg(x)"))
    x = np.arange(3, dtype=np.float32)
    assert net(x=x)["y"].tolist() == [0, 2, 4]
    assert net(x=-x)["y"].tolist() == [0, 1, 2]


LOOP = """
g (int64 n, float[2] x) => (float[2] y, float[K, 2] all)
{
  going = Constant<value_int = 1>()
  c = Cast<to = 9>(going)
  y, all = Loop(n, c, x) <
    body = b (int64 i, bool c_in, float[2] v) => (bool c_out, float[2] w, float[2] seen) {
      c_out = Identity(c_in)
      w = Add(v, v)
      seen = Identity(v)
    }
  >
}
"""


def test_loops_are_unrolled() -> None:
    net = model(LOOP)
    x = np.array([1, 3], np.float32)
    result = net(n=3, x=x)
    assert result["y"].tolist() == [8, 24]
    assert result["all"].tolist() == [[1, 3], [2, 6], [4, 12]]
    assert net(n=1, x=x)["all"].tolist() == [[1, 3]]
    assert net(n=0, x=x)["y"].tolist() == [1, 3]


def test_shapes_that_depend_on_data() -> None:
    net = model("g (float[N] x) => (int64[1, K] y) { y = NonZero(x) }")
    assert net(x=np.array([0, 5, 0, 7], np.float32))["y"].tolist() == [[1, 3]]
    assert net(x=np.zeros(4, np.float32))["y"].shape == (1, 0)


def test_functions_of_a_model() -> None:
    text = """
<ir_version: 10, opset_import: ["": 21, "own": 1]>
g (float[N] x) => (float[N] y) { y = own.twice <by = 3.0> (x) }
<domain: "own", opset_import: ["": 21]>
twice <by> (a) => (b) {
  k = Constant<value_float: float = @by>()
  b = Mul(a, k)
}
"""
    net = porism.onnx.load(onnx.parser.parse_model(text).SerializeToString())
    assert net(x=np.arange(3, dtype=np.float32))["y"].tolist() == [0, 3, 6]


def test_operators_that_are_defined_by_others() -> None:
    net = model("g (float[2, 3] x, int64[2] t) => (float l) { l = SoftmaxCrossEntropyLoss(x, t) }")
    x = np.array([[1, 2, 3], [1, 1, 1]], np.float32)
    t = np.array([2, 0])
    log = x - np.log(np.exp(x).sum(1, keepdims=True))
    expected = -log[[0, 1], t].mean()
    assert net(x=x, t=t)["l"].item() == pytest.approx(expected, rel=1e-5)


def test_types_that_tensors_lack_are_arrays() -> None:
    net = model("g (float[N] x) => (int4[N] y) { y = Cast<to = 22>(x) }")
    result = net(x=np.array([-8, 1, 7], np.float32))["y"]
    assert isinstance(result, np.ndarray)
    assert result.dtype.name == "int4"
    assert result.astype(int).tolist() == [-8, 1, 7]


def test_division_of_integers_truncates() -> None:
    net = model("g (int32[N] a, int32[N] b) => (int32[N] y) { y = Div(a, b) }")
    a = np.array([7, -7, 7, -7, 6], np.int32)
    b = np.array([2, 2, -2, -2, -3], np.int32)
    assert net(a=a, b=b)["y"].tolist() == [3, -3, -3, 3, -2]


def test_a_loop_that_ends_by_a_condition_on_data() -> None:
    net = model("""
g (float[2] x, float[2] step) => (float[2] y, float[K, 2] all)
{
  going = Constant<value_int = 1>()
  c = Cast<to = 9>(going)
  z = Mul(x, step)
  v, all = Loop( , c, z) <
    body = b (int64 i, bool c_in, float[2] v) => (bool c_out, float[2] w, float[2] seen) {
      k = Cast<to = 1>(i)
      u = Add(v, step)
      w = Add(u, k)
      s = ReduceSum<keepdims = 0>(w)
      most = Constant<value_float = 40.0>()
      c_out = Less(s, most)
      seen = Identity(v)
    }
  >
  y = Relu(v)
}
""")
    for x in ([1, 2], [3, 9], [40, 1]):
        v = np.array(x, np.float32) * 2
        seen, going, i = [], True, 0
        while going:
            seen.append(v)
            v = v + 2 + i
            going, i = v.sum() < 40, i + 1
        result = net(x=np.array(x, np.float32), step=np.full(2, 2, np.float32))
        assert result["y"].tolist() == v.tolist()
        assert result["all"].tolist() == [s.tolist() for s in seen]


def test_sums_of_selected_elements() -> None:
    net = model("""
g (float[N] x, float[N] w) => (float y)
{
  a = Mul(x, w)
  zero = Constant<value_float = 0.0>()
  c = Greater(a, zero)
  p = Compress<axis = 0>(a, c)
  q = Mul(p, p)
  y = ReduceSum<keepdims = 0>(q)
}
""")
    rng = np.random.default_rng(1)
    for n in (4, 9, 4):
        x, w = rng.normal(size=n).astype(np.float32), rng.normal(size=n).astype(np.float32)
        positive = (x * w)[x * w > 0]
        assert net(x=x, w=w)["y"].item() == pytest.approx(float((positive**2).sum()), rel=1e-5)


# -- errors ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("inputs", "what"),
    [
        ({}, "the input 'x' is missing"),
        ({"x": np.ones((2, 3), np.float32), "z": 1}, "the model has no input 'z'"),
        ({"x": np.ones((2, 3))}, "the input 'x' is of float64"),
        ({"x": np.ones((2, 4), np.float32)}, "the input 'x' has the shape (2, 4)"),
        ({"x": np.ones(3, np.float32)}, "the input 'x' has the shape (3,)"),
        ({"x": object()}, "the input 'x' is a object"),
    ],
)
def test_inputs_that_do_not_fit(inputs: Any, what: str) -> None:
    with pytest.raises(porism.onnx.ModelError) as caught:
        model(MLP)(inputs)
    assert caught.value.what == what
    assert caught.value.why is not None
    assert caught.value.fix is not None


def test_an_unknown_operator_is_named() -> None:
    net = model("g (float[N] x) => (float[N] y) { y = other.Relux(x) }", other=1)
    with pytest.raises(porism.onnx.ModelError) as caught:
        net(x=np.ones(2, np.float32))
    assert "the operator other Relux of version 1 is not known" in str(caught.value)
    assert "porism check" in str(caught.value)


def test_shapes_that_do_not_fit_name_the_node() -> None:
    net = model("g (float[N] x, float[M] z) => (float[N] y) { [sum] y = Add(x, z) }")
    with pytest.raises(porism.onnx.ModelError) as caught:
        net(x=np.ones(2, np.float32), z=np.ones(3, np.float32))
    assert "Add 'sum'" in str(caught.value)
    assert "(2,) and (3,)" in str(caught.value)


def test_what_is_no_model(tmp_path: Path) -> None:
    for source in (b"hello", b"", tmp_path / "none.onnx", 7, proto(MLP).SerializeToString()[:40]):
        with pytest.raises(PorismError) as caught:
            porism.onnx.load(source)
        assert caught.value.fix is not None


def test_a_cycle_is_refused() -> None:
    nodes = [helper.make_node("Relu", ["b"], ["a"]), helper.make_node("Relu", ["a"], ["b"])]
    info = helper.make_tensor_value_info("b", TensorProto.FLOAT, [1])
    graph = helper.make_graph(nodes, "g", [], [info])
    with pytest.raises(porism.onnx.ModelError, match="never defined"):
        porism.onnx.load(helper.make_model(graph).SerializeToString())


def test_nodes_in_any_order() -> None:
    nodes = [helper.make_node("Neg", ["a"], ["b"]), helper.make_node("Relu", ["x"], ["a"])]
    infos = [helper.make_tensor_value_info(n, TensorProto.FLOAT, [2]) for n in ("x", "b")]
    graph = helper.make_graph(nodes, "g", infos[:1], infos[1:])
    net = porism.onnx.load(helper.make_model(graph).SerializeToString())
    assert net(x=np.array([-1, 2], np.float32))["b"].tolist() == [0, -2]


@pytest.mark.parametrize(
    ("dims", "data"), [([2, 2], bytes(12)), ([-1], bytes(4)), ([1 << 40], b""), ([1 << 62, 4], b"")]
)
def test_tensors_whose_size_is_wrong(dims: list[int], data: bytes) -> None:
    message = proto(MLP)
    tensor = message.graph.initializer[0]
    tensor.ClearField("float_data")
    tensor.ClearField("dims")
    tensor.dims.extend(dims)
    tensor.raw_data = data
    with pytest.raises(porism.onnx.ModelError, match="the tensor 'w'"):
        porism.onnx.load(message.SerializeToString())


@pytest.mark.parametrize(
    "text",
    [
        "g () => (float[N] y) <int64[2] s = {1000000000, 1000000000}> { y = ConstantOfShape(s) }",
        """g (float[1] x) => (float[N] y) <int64[2] s = {1000000000, 1000000000}>
           { y = Expand(x, s) }""",
        "g (float[1] x) => (float[N] y) <int64[1] s = {1000000000000}> { y = Tile(x, s) }",
        """g () => (int64[N] y) <int64 a = {0}, int64 b = {1000000000000000}, int64 c = {1}>
           { y = Range(a, b, c) }""",
    ],
)
def test_results_that_are_too_large(text: str) -> None:
    net = model(text)
    with pytest.raises(porism.onnx.ModelError, match="at most"):
        net({name: np.ones(1, np.float32) for name in net.inputs})


def external_model(folder: Path, location: str, **more: str) -> Path:
    message = proto(MLP)
    tensor = message.graph.initializer[0]
    tensor.ClearField("float_data")
    tensor.data_location = TensorProto.EXTERNAL
    for key, value in {"location": location, **more}.items():
        entry = tensor.external_data.add()
        entry.key, entry.value = key, value
    path = folder / "model.onnx"
    path.write_bytes(message.SerializeToString())
    return path


def test_external_data(tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    weights = np.arange(1, 7, dtype=np.float32).tobytes()
    (folder / "weights.bin").write_bytes(b"1234" + weights)
    path = external_model(folder, "weights.bin", offset="4", length="24")
    x = np.ones((1, 3), np.float32)
    assert porism.onnx.load(path)(x=x)["y"].tolist() == [[9, 12]]
    with pytest.raises(porism.onnx.ModelError, match="given as bytes"):
        porism.onnx.load(path.read_bytes())


@pytest.mark.parametrize(
    ("location", "more"),
    [
        ("../secret.bin", {}),
        ("/etc/passwd", {}),
        ("link.bin", {}),
        ("none.bin", {}),
        ("", {}),
        ("weights.bin", {"offset": "20"}),
        ("weights.bin", {"offset": "-4"}),
        ("weights.bin", {"length": "1e3"}),
        ("weights.bin", {"length": "999999999999"}),
    ],
)
def test_external_data_that_is_refused(tmp_path: Path, location: str, more: dict[str, str]) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    (tmp_path / "secret.bin").write_bytes(bytes(24))
    (folder / "link.bin").symlink_to(tmp_path / "secret.bin")
    (folder / "weights.bin").write_bytes(bytes(24))
    with pytest.raises(porism.onnx.ModelError):
        porism.onnx.load(external_model(folder, location, **more))


def test_endless_functions_are_refused() -> None:
    text = """
<ir_version: 10, opset_import: ["": 21, "own": 1]>
g (float[N] x) => (float[N] y) { y = own.again(x) }
<domain: "own", opset_import: ["": 21, "own": 1]>
again (a) => (b) { b = own.again(a) }
"""
    net = porism.onnx.load(onnx.parser.parse_model(text).SerializeToString())
    with pytest.raises(porism.onnx.ModelError):
        net(x=np.ones(2, np.float32))


def test_sparse_initializers() -> None:
    message = proto("g (float[4] x) => (float[4] y) { y = Add(x, w) }".replace("w)", "x)"))
    message.graph.node[0].input[1] = "w"
    values = numpy_helper.from_array(np.array([5, 7], np.float32), "w")
    indices = numpy_helper.from_array(np.array([1, 3], np.int64), "at")
    message.graph.sparse_initializer.append(helper.make_sparse_tensor(values, indices, [4]))
    net = porism.onnx.load(message.SerializeToString())
    assert net(x=np.zeros(4, np.float32))["y"].tolist() == [0, 5, 0, 7]


@pytest.mark.parametrize("name", ["QLinearAdd", "QLinearMul"])
def test_quantized_arithmetic_rounds_once(name: str) -> None:
    """Operands of a scale and a zero point are computed in floats, and quantized again."""
    loaded = model(
        f"""g (uint8[3] a, uint8[3] b) => (uint8[3] y)
        <float s = {{0.5}}, uint8 z = {{2}}, float t = {{0.25}}, uint8 u = {{1}}> {{
        y = com.microsoft.{name}(a, s, z, b, t, u, s, z) }}""",
        com_microsoft=1,
    )
    a, b = np.array([0, 7, 255], np.uint8), np.array([1, 6, 255], np.uint8)
    left, right = (a.astype(np.float32) - 2) * 0.5, (b.astype(np.float32) - 1) * 0.25
    whole = left + right if name == "QLinearAdd" else left * right
    expected = np.clip(np.rint(whole / 0.5) + 2, 0, 255).astype(np.uint8)
    np.testing.assert_array_equal(loaded({"a": a, "b": b})["y"].numpy(), expected)


@pytest.mark.parametrize(
    ("node", "function"),
    [
        ("QLinearSigmoid(x, s, z, t, z)", lambda v: 1 / (1 + np.exp(-v))),
        ("QLinearLeakyRelu<alpha = 0.5>(x, s, z, t, z)", lambda v: np.where(v < 0, v * 0.5, v)),
        ("QLinearGlobalAveragePool(x, s, z, t, z)", lambda v: v.mean((2, 3), keepdims=True)),
        ("QLinearConcat<axis = 1>(t, z, x, s, z, x, t, z)", None),
    ],
)
def test_quantized_functions(node: str, function: Any) -> None:
    loaded = model(
        f"""g (int8[1,2,2,2] x) => (int8[a,b,c,d] y)
        <float s = {{0.25}}, int8 z = {{-3}}, float t = {{0.0625}}> {{
        y = com.microsoft.{node} }}""",
        com_microsoft=1,
    )
    x = np.array([-128, -60, -3, -2, 0, 5, 60, 127], np.int8).reshape(1, 2, 2, 2)
    steps = x.astype(np.float32) + 3
    if function is None:
        whole = np.concatenate([steps * 0.25, steps * 0.0625], axis=1)
    else:
        whole = function(steps * np.float32(0.25))
    expected = np.clip(np.rint(whole / 0.0625) - 3, -128, 127).astype(np.int8)
    np.testing.assert_array_equal(loaded({"x": x})["y"].numpy(), expected)


@pytest.mark.parametrize("rounded", [False, True])
def test_a_quantized_gemm_has_exact_sums(rounded: bool) -> None:
    rng = np.random.default_rng(4)
    a = rng.integers(0, 256, (3, 4)).astype(np.uint8)
    b = rng.integers(-128, 128, (2, 4)).astype(np.int8)
    c = rng.integers(-500, 500, 2).astype(np.int32)
    kind, rest = ("uint8", ", t, z") if rounded else ("float", "")
    loaded = model(
        f"""g (uint8[3,4] a, int8[2,4] b, int32[2] c, float[2] w) => ({kind}[3,2] y)
        <float s = {{0.5}}, uint8 z = {{7}}, int8 v = {{0}}, float t = {{2.0}}> {{
        y = com.microsoft.QGemm<transB = 1>(a, s, z, b, w, v, c{rest}) }}""",
        com_microsoft=1,
    )
    w = np.array([0.125, 0.0625], np.float32)
    sums = (a.astype(np.int32) - 7) @ b.T.astype(np.int32) + c
    expected = sums.astype(np.float32) * (np.float32(0.5) * w)
    if rounded:
        expected = np.clip(np.rint(expected / 2) + 7, 0, 255).astype(np.uint8)
    found = loaded({"a": a, "b": b, "c": c, "w": w})["y"].numpy()
    np.testing.assert_array_equal(found, expected)


CUT = """g (float[N] x, float[1] w) => (float[M] y) <float[1] w = {2.0}> {
    where = NonZero(x)
    index = Transpose(where)
    kept = GatherND(x, index)
    one = Constant <value: tensor = float[1] {1.0}>()
    more = Add(kept, one)
    y = Mul(more, w)
}"""


def test_an_initializer_that_is_given_counts_where_a_graph_is_cut() -> None:
    net = model(CUT)
    x = np.array([0, 3, 0, 5], np.float32)
    assert net(x=x)["y"].numpy().tolist() == [8, 12]
    assert net(x=x, w=np.array([10], np.float32))["y"].numpy().tolist() == [40, 60]
    assert net(x=x)["y"].numpy().tolist() == [8, 12]


def test_a_graph_that_is_cut_computes_nothing_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where a piece is cut, what was computed before it is kept."""
    computed: list[str] = []
    run_node = PiecewiseProgram.run_node

    def counted(program: PiecewiseProgram, node: Node, names: dict[str, Any]) -> None:
        computed.append(node.op)
        run_node(program, node, names)

    monkeypatch.setattr(PiecewiseProgram, "run_node", counted)
    text = """g (float[N] x) => (float[L] z) {
        first = NonZero(x)
        first_index = Transpose(first)
        kept = GatherND(x, first_index)
        one = Constant <value: tensor = float[1] {3.0}>()
        less = Sub(kept, one)
        second = NonZero(less)
        second_index = Transpose(second)
        z = GatherND(less, second_index)
    }"""
    net = model(text)
    for _ in range(2):
        x = np.array([0, 3, 0, 5], np.float32)
        assert net(x=x)["z"].numpy().tolist() == [2]
    assert computed == ["NonZero"] * 4
