"""The intermediate representation: one node type, one table of ops, and what is known of a node."""

from porism.ir import node_collector as _sweep  # noqa: F401 - so that dead nodes are freed
