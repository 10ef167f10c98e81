"""Peers: other compilers, installed beside the project only to be measured.

What draws the plots of the measurements is installed in the same way, and is no dependency either.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

FOLDER = Path(__file__).resolve().parent.parent / ".peers"
VERSIONS = {
    "tinygrad": "0.14.0",
    "torch": "2.13.0",
    "jax": "0.10.2",
    "onnxruntime": "1.31.1",
    "matplotlib": "3.10.9",
    "ziglang": "0.17.0",
}
BESIDE = {"onnxruntime": ("onnx==1.23.2",)}
"""Packages that are installed into the folder of a peer, though it does not need them itself."""
ALONE = frozenset({"tinygrad", "ziglang"})
"""Peers that need no other packages."""


def install(name: str) -> Path | None:
    """The folder to import a peer from; None, with a message, if it cannot be installed."""
    target = FOLDER / f"{name}-{VERSIONS[name]}"
    done = target / "installed"
    if done.exists():
        return target
    print(f"installing {name} {VERSIONS[name]} for the comparison …", file=sys.stderr)
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--target", str(target)]
    if name in ALONE:
        command.append("--no-deps")
    result = subprocess.run(
        [*command, f"{name}=={VERSIONS[name]}", *BESIDE.get(name, ())],
        capture_output=True,
        text=True,
        check=False,
    )
    if result.returncode:
        reason = (result.stderr.strip().splitlines() or ["pip failed"])[-1]
        print(f"{name} is not measured: {reason}", file=sys.stderr)
        return None
    done.touch()
    return target


def environment(*folders: Path) -> dict[str, str]:
    """Variables for a process that imports from these folders too."""
    before = os.environ.get("PYTHONPATH", "")
    paths = [str(f) for f in folders] + ([before] if before else [])
    return {**os.environ, "PYTHONPATH": os.pathsep.join(paths), "PYTHONHASHSEED": "0"}
