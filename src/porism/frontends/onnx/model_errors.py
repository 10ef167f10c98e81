"""Model errors: what is wrong with a model or its inputs, in which node, why, and how to fix it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from porism.base.errors import PorismError

if TYPE_CHECKING:
    from porism.frontends.onnx.imported_graph import Node


class ModelError(PorismError):
    """A model that cannot be read, built or run, or inputs that do not fit it."""


class NeedsHost(Exception):  # noqa: N818 - a request, and no error of the user
    """A node needs the value of a tensor that is only traced: its shape depends on data."""

    def __init__(self, node: Node, value: Any) -> None:
        super().__init__(node.label)
        self.node = node
        self.value = value
        """The tensor whose value is needed."""
        self.inputs: frozenset[str] = frozenset()
        """The inputs of the model that decide it."""
        self.number = node.number
        """The number of the node, or of the outermost node that it is part of."""


def node_error(node: Node, what: str, why: str, fix: str) -> ModelError:
    """Return the error for one node of a model."""
    return ModelError(what, where=node.label, why=why, fix=fix)


@contextmanager
def errors_of(node: Node) -> Iterator[None]:
    """Report what goes wrong while a node is built as an error that names the node."""
    try:
        yield
    except (ModelError, NeedsHost):
        raise
    except PorismError as error:
        raise ModelError(
            f"{node.op}: {error.what}",
            where=node.label,
            why=error.why or "its inputs do not fit",
            fix="check the inputs of the model; if they fit, the model is not valid",
        ) from error
    except Exception as error:
        raise ModelError(
            f"{node.op} cannot be built",
            where=node.label,
            why=f"{type(error).__name__}: {error}",
            fix="check the model, with onnx.checker.check_model, and the shapes of its inputs",
        ) from error
