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
    enabled = torch._C._get_mkldnn_enabled()
    torch._C._set_mkldnn_enabled(False)  # else recurrent layers are traced as one opaque operator
    try:
        return _aot(module, example_inputs)
    finally:
        torch._C._set_mkldnn_enabled(enabled)


def _decompositions() -> dict[Any, Callable[..., Any]]:
    """Return how torch decomposes operators into those of core ATen, but for some in the table.

    The decomposition of attention for CPUs returns weights in place of the logarithm of their sums,
    which the operator of its gradient takes: results of gradients would be wrong. That of linspace
    rounds the steps of integers to float32, so that some of them are off by one.
    """
    table = dict(core_aten_decompositions())
    del table[torch.ops.aten._scaled_dot_product_flash_attention_for_cpu.default]
    for overload in torch.ops.aten.linspace.overloads():
        table.pop(getattr(torch.ops.aten.linspace, overload), None)
    return table


_aot = aot_autograd(
    fw_compiler=compile_graph,
    bw_compiler=compile_graph,
    inference_compiler=compile_graph,
    decompositions=_decompositions(),
)
