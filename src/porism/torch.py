"""PyTorch's side door: `torch.compile(model, backend=porism.torch.backend)`, or `backend="porism"`.

Torch is imported when the backend is asked for; Porism itself does not need it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from porism.frontends.torch.fallback_report import Report, report

if TYPE_CHECKING:
    from porism.frontends.torch.dynamo_backend import backend

__all__ = ["Report", "backend", "report"]


def __getattr__(name: str) -> Any:
    if name == "backend":
        from porism.frontends.torch.dynamo_backend import backend

        return backend
    raise AttributeError(f"module 'porism.torch' has no attribute {name!r}")
