"""ONNX suite: the cases that the package onnx brings, compared with their expected outputs.

    ./dev suite onnx                    all node cases, in and out of scope, with counts
    ./dev suite onnx -k Conv -v         those whose name contains a word; why each fails
    ./dev suite onnx --kinds simple     other kinds: light, simple, converted, operator

In scope are dense tensors in the main domain with shapes that follow from shapes. The tolerances
are those of the cases themselves. `EXCLUDED` are cases without one right result, with the reason.
"""

from __future__ import annotations

import argparse
import collections
import functools
import glob
import json
import os
import re
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import numpy as np

import porism

EXCLUDED: Final[dict[str, str]] = {
    "test_bernoulli": "random: the case stores one draw of another generator",
    "test_bernoulli_double": "random",
    "test_bernoulli_seed": "random",
    "test_bernoulli_expanded": "random",
    "test_bernoulli_double_expanded": "random",
    "test_bernoulli_seed_expanded": "random",
    "test_training_dropout": "random: dropout in training mode",
    "test_training_dropout_default": "random",
    "test_training_dropout_default_mask": "random",
    "test_training_dropout_mask": "random",
    "test_dft_inverse": "expects 1.9e-7, the rounding noise of a float32 FFT, where 0 is exact",
    "test_dft_inverse_opset19": "expects 1.9e-7, the rounding noise of a float32 FFT, for 0",
    "test_attention_4d_causal_fp16": "2 of 192 are one float16 apart, more than the tolerance",
    "test_attention_4d_causal_fp16_expanded": "2 of 192 are one float16 apart",
}
"""Cases whose expected values have no meaning beyond chance or rounding, and why."""

OUT_OF_SCOPE: Final = {
    "string", "sequence", "ml-domain", "training-domain", "data-dependent-shape", "random",
}  # fmt: skip
"""Tags of cases that are not about dense tensors of static shape."""

_RANDOM: Final = {
    "RandomNormal", "RandomUniform", "RandomNormalLike", "RandomUniformLike", "Bernoulli",
    "Multinomial", "Dropout",
}  # fmt: skip
_TEXT: Final = {
    "ImageDecoder", "RegexFullMatch", "StringConcat", "StringSplit", "StringNormalizer",
    "TfIdfVectorizer", "LabelEncoder",
}  # fmt: skip
_BY_DATA: Final = {"NonZero", "Unique", "Compress", "NonMaxSuppression"}

DISK_KINDS: Final = {
    "light": "real",
    "simple": "simple",
    "converted": "pytorch-converted",
    "operator": "pytorch-operator",
}


@dataclass
class Case:
    """One case: a model, inputs, expected outputs."""

    name: str
    kind: str
    rtol: float
    atol: float
    load: Callable[[], tuple[Any, list[tuple[list[Any], list[Any]]]]]
    tags: set[str] = field(default_factory=set)

    @property
    def in_scope(self) -> bool:
        """Whether a compiler of dense tensors is expected to pass it."""
        return not self.tags & OUT_OF_SCOPE


def _value(x: Any) -> Any:
    import onnx
    from onnx import numpy_helper

    if isinstance(x, onnx.TensorProto):
        return numpy_helper.to_array(x)
    return np.asarray(x) if isinstance(x, np.generic) else x


def _operators(graph: Any) -> set[tuple[str, str]]:
    found = set()
    for node in graph.node:
        found.add((node.domain, node.op_type))
        for attribute in node.attribute:
            for inner in [attribute.g] if attribute.type == 5 else attribute.graphs:
                found |= _operators(inner)
    return found


def tags_of(model: Any) -> set[str]:
    """Return what a case is about, beyond dense tensors."""
    tags = set()
    for info in [*model.graph.input, *model.graph.output]:
        if not info.type.HasField("tensor_type"):
            tags.add("sequence")
        elif info.type.tensor_type.elem_type == 8:
            tags.add("string")
    for domain, name in _operators(model.graph):
        if domain.startswith("ai.onnx.ml"):
            tags.add("ml-domain")
        if "training" in domain:
            tags.add("training-domain")
        tags |= {"random"} if name in _RANDOM else set()
        tags |= {"string"} if name in _TEXT else set()
        tags |= {"data-dependent-shape"} if name in _BY_DATA else set()
    if re.search(r"_expanded(_ver\d+)?$", model.graph.name):
        tags.add("expanded")
    return tags


def node_cases() -> Iterator[Case]:
    """Yield the cases of single operators."""
    from onnx.backend.test.loader import load_node_model_tests

    for case in load_node_model_tests():
        sets = [
            ([_value(v) for v in inputs], [_value(v) for v in outputs])
            for inputs, outputs in case.data_sets or ()
        ]
        load = functools.partial(_pair, case.model, sets)
        yield Case(case.name, "node", case.rtol, case.atol, load, tags_of(case.model))


def _pair(model: Any, sets: Any) -> tuple[Any, Any]:
    return model, sets


def _read(path: str, info: Any) -> Any:
    import onnx
    from onnx import numpy_helper

    data = Path(path).read_bytes()
    if info.HasField("sequence_type"):
        return numpy_helper.to_list(onnx.SequenceProto.FromString(data))
    if info.HasField("optional_type"):
        return numpy_helper.to_optional(onnx.OptionalProto.FromString(data))
    return numpy_helper.to_array(onnx.TensorProto.FromString(data))


def _load_light(url: str) -> tuple[Any, list[tuple[list[Any], list[Any]]]]:
    import onnx

    path = os.path.join(os.path.dirname(os.path.dirname(onnx.__file__)), url)
    model = onnx.load(path)
    constants = {tensor.name for tensor in model.graph.initializer}
    inputs = []
    for info in model.graph.input:
        if info.name not in constants:
            dims = [d.dim_value or 1 for d in info.type.tensor_type.shape.dim]
            count = int(np.prod(dims))
            inputs.append((np.arange(count).reshape(dims) / count).astype(np.float32))
    stem = os.path.splitext(path)[0]
    outputs = [_read(f"{stem}_output_{k}.pb", o.type) for k, o in enumerate(model.graph.output)]
    return model, [(inputs, outputs)]


def _load_folder(folder: str) -> tuple[Any, list[tuple[list[Any], list[Any]]]]:
    import onnx

    model = onnx.load(os.path.join(folder, "model.onnx"))
    sets = []
    for data in sorted(glob.glob(os.path.join(folder, "test_data_set*"))):
        parts = []
        for word, infos in (("input", model.graph.input), ("output", model.graph.output)):
            count = len(glob.glob(os.path.join(data, f"{word}_*.pb")))
            parts.append([_read(f"{data}/{word}_{k}.pb", infos[k].type) for k in range(count)])
        sets.append((parts[0], parts[1]))
    return model, sets


def disk_cases(kind: str) -> Iterator[Case]:
    """Yield the cases that the package has as files."""
    from onnx.backend.test.loader import load_model_tests

    for case in sorted(load_model_tests(kind=DISK_KINDS[kind]), key=lambda c: c.name):
        load: Any = (
            (lambda url=case.url: _load_light(url))
            if case.model_dir is None
            else (lambda folder=case.model_dir: _load_folder(folder))
        )
        yield Case(case.name, kind, case.rtol, case.atol, load)


def run_case(case: Case) -> tuple[str, str]:
    """Return pass, wrong, error or refused, and why."""
    from onnx.backend.test.runner import Runner

    model, sets = case.load()
    try:
        loaded = porism.onnx.load(model.SerializeToString())
    except Exception as error:
        return "refused", _brief(error)
    for inputs, expected in sets:
        try:
            outputs = loaded(dict(zip(loaded.inputs, inputs, strict=False)))
            found = [_array(value) for value in outputs.values()]
        except Exception as error:
            return "error", _brief(error)
        try:
            Runner.assert_similar_outputs(expected, found, case.rtol, case.atol)
        except Exception as error:
            return "wrong", _brief(error)
    return "pass", ""


def _array(value: Any) -> Any:
    if isinstance(value, list):
        return [_array(item) for item in value]
    return value.numpy() if hasattr(value, "numpy") else value


def _brief(error: Exception) -> str:
    if isinstance(error, porism.onnx.ModelError):
        return f"{error.what} [{error.where}]: {error.why}"[:300]
    return f"{type(error).__name__}: {' '.join(str(error).split())}"[:300]


def cases_of(kinds: list[str]) -> Iterator[Case]:
    """Yield the cases of all kinds."""
    for kind in kinds:
        yield from node_cases() if kind == "node" else disk_cases(kind)


def main() -> int:
    """Run the suite, print counts, and return 1 if a case in scope is not passed."""
    parser = argparse.ArgumentParser(prog="./dev suite onnx", description=__doc__)
    parser.add_argument("--kinds", default="node,light", help="node,light,simple,…")
    parser.add_argument("-k", default="", metavar="WORD", help="only names that contain it")
    parser.add_argument("-v", action="store_true", help="print why each case fails")
    parser.add_argument("--shard", default="0/1", metavar="I/N", help="every N-th case from I on")
    parser.add_argument("--json", metavar="FILE", help="also write the results to FILE")
    options = parser.parse_args()
    warnings.filterwarnings("ignore")
    first, step = map(int, options.shard.split("/"))
    pattern = re.compile(options.k)
    cases = [c for c in cases_of(options.kinds.split(",")) if pattern.search(c.name)][first::step]
    counts: dict[str, collections.Counter[str]] = collections.defaultdict(collections.Counter)
    rows = []
    began = time.perf_counter()
    for case in cases:
        start = time.perf_counter()
        result, why = ("excluded", EXCLUDED[case.name]) if case.name in EXCLUDED else run_case(case)
        group = case.kind + ("" if case.in_scope else " (out of scope)")
        counts[group][result] += 1
        seconds = round(time.perf_counter() - start, 3)
        rows.append({"name": case.name, "group": group, "result": result, "why": why, "s": seconds})
        if options.v and result not in ("pass", "excluded"):
            print(f"{result:8} {case.name}: {why}", flush=True)
    for group, found in counts.items():
        text = ", ".join(f"{n} {name}" for name, n in found.most_common())
        print(f"{group:24} {sum(found.values()):5}: {text}")
    print(f"{len(cases)} cases in {time.perf_counter() - began:.0f} s")
    if options.json:
        Path(options.json).write_text(json.dumps(rows, indent=0))
    in_scope = [n for g, n in counts.items() if "out of scope" not in g]
    return 0 if all(set(n) <= {"pass", "excluded"} for n in in_scope) else 1


if __name__ == "__main__":
    sys.exit(main())
