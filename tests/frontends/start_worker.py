"""A process that calls a model once, and tells its results and whether it loaded the compiler.

Its sources count as unchanged, so that tests do not fail while someone edits the tree.
"""

from __future__ import annotations

import hashlib
import json
import sys

import numpy as np

import porism
from porism.base import source_digest
from porism.engine.cache import kernel_cache


def main(path: str) -> None:
    code = "the sources of this test"
    source_digest.digest = lambda: code  # type: ignore[assignment]
    source_digest.tracing_digest = lambda: code  # type: ignore[assignment]
    model = porism.onnx.load(path)
    x = np.linspace(-1, 1, 8 * 256, dtype=np.float32).reshape(8, 256)
    result = model({"x": x})["y"].numpy()
    told = {
        "digest": hashlib.blake2b(result.tobytes()).hexdigest(),
        "compiled": kernel_cache.counts.compiled,
        "compiler": "porism.pipeline" in sys.modules,
    }
    print(json.dumps(told))


if __name__ == "__main__":
    main(sys.argv[1])
