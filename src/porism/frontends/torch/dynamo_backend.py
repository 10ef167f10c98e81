"""Dynamo backend: what `torch.compile(model, backend=porism.torch.backend)` calls.

Torch's own machinery turns forward and backward passes into graphs of ATen operators without
mutation (aot_autograd, with the decompositions to core ATen); each graph becomes a `GraphProgram`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from functorch.compile import make_boxed_func
from torch._decomp import core_aten_decompositions
from torch._dynamo.backends.common import aot_autograd
from torch.fx import GraphModule

from porism.frontends.torch.graph_program import GraphProgram


def compile_graph(module: GraphModule, example_inputs: Sequence[Any]) -> Callable[..., Any]:
    """Return a graph of ATen operators as a callable."""
    run: Callable[..., Any] = make_boxed_func(GraphProgram(module))
    return run


def backend(module: GraphModule, example_inputs: Sequence[Any], **options: Any) -> Any:
    """Compile a graph for `torch.compile`; models in training and in evaluation."""
    with torch.backends.mkldnn.flags(enabled=False):
        return _aot(module, example_inputs)


_aot = aot_autograd(
    fw_compiler=compile_graph,
    bw_compiler=compile_graph,
    inference_compiler=compile_graph,
    decompositions=core_aten_decompositions(),
)
