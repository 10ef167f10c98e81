"""The lines of assembly are found by debug locations, which change no instruction."""

from __future__ import annotations

import numpy as np
import pytest

import porism
from porism.backends.backend_table import native_backend
from porism.backends.llvm.llvm_compiler import assembly, attributes
from porism.backends.llvm.llvm_renderer import Renderer
from porism.pipeline import lower_kernel
from porism.viewer import line_loops


def kernel(name: str) -> porism.Tensor:
    x = porism.asarray(np.ones((48, 80), np.float32))
    made: dict[str, porism.Tensor] = {
        "softmax": x.softmax(),
        "product": x @ x.T,
        "map": x * 2 + 1,
        "large map": porism.asarray(np.ones((4096, 4096), np.float32)) + 1,
        "gather": x[porism.asarray([3, 1, 2])],
    }
    return made[name]


@pytest.mark.parametrize("name", ["softmax", "product", "map", "large map", "gather"])
def test_locations_change_no_instruction(name: str) -> None:
    (found, *_) = porism.kernels(kernel(name))
    instructions = lower_kernel(found.node, native_backend().target())
    text = Renderer("kernel", instructions).text()
    plain, _ = line_loops.located_assembly(assembly(text + attributes() + "\n"))
    with_locations = line_loops.with_locations(text + attributes() + "\n")
    lines, sources = line_loops.located_assembly(assembly(with_locations))
    assert lines == plain
    assert len(sources) == len(lines)
    ir = text.split("\n")
    assert all(0 <= source <= len(ir) for source in sources)
    used = [ir[source - 1] for source in sources if source]
    assert used
    assert all(line.startswith(("  ", "define")) for line in used)


def test_loops_of_llvm_are_nested_as_those_of_the_instructions() -> None:
    (found,) = porism.kernels(kernel("softmax"))
    instructions = lower_kernel(found.node, native_backend().target())
    loops = line_loops.loops_of(instructions)
    assert [loop.parent for loop in loops] == [-1, *[0] * (len(loops) - 1)]
    lines = Renderer("kernel", instructions).text().split("\n")
    assert set(line_loops.llvm_loops(lines)) == set(range(-1, len(loops)))


def test_unrolled_loops_belong_to_the_loop_around_them() -> None:
    lines = ["for r0 < 8:", "    for r1 < 4:  # upcast", "        x = 0", "    y = 0", "z = 0"]
    loops = [line_loops.Loop("r0", -1)]
    assert line_loops.listing_loops(lines, loops) == [0, 0, 0, 0, -1]
