"""Action registry: the one table of all actions, by the module each is defined in.

To add an action, write its module and a line here. Everything else reads this table: the names of
the package (`porism.Upcast`), saved lists of actions, the search and the fuzzers. Looking at the
names imports nothing; an action's module is imported when the action is first looked up.

>>> ACTIONS["Thread"]("r0")
Thread(axis='r0')
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from porism.optimize.actions.action import Action

MODULES: Final[Mapping[str, str]] = {
    "loops.upcast_unroll": "Upcast Unroll",
    "loops.loop_tiling": "Split OverlapTail",
    "loops.peeling": "Peel",
    "loops.reduction_blocking": "Block",
    "loops.parallel_loop": "Thread",
    "loops.loop_interchange": "Swap Move",
    "loops.merge_loops": "Merge",
    "loops.loop_padding": "PadTo",
    "memory.packed_panels": "Pack",
    "memory.epilogue": "Epilogue",
    "loops.scan_loop": "Scan",
    "memory.streaming_stores": "NonTemporal",
    "memory.software_prefetch": "Prefetch",
    "gpu.thread_block_actions": "NoLocals Local Group GroupTop",
    "gpu.tensor_core_action": "TC",
    "gpu.shared_tile": "Stage",
}
"""Actions by module of `porism.optimize.actions`, in a fixed order (fuzz seeds depend on it)."""

_WHERE: Final = {name: module for module, names in MODULES.items() for name in names.split()}


class _Registry(Mapping[str, "type[Action]"]):
    """The action classes by name, each imported when it is first looked up."""

    def __getitem__(self, name: str) -> type[Action]:
        module = import_module(f"porism.optimize.actions.{_WHERE[name]}")
        kind: type[Any] = getattr(module, name)
        return kind

    def __iter__(self) -> Iterator[str]:
        return iter(_WHERE)

    def __len__(self) -> int:
        return len(_WHERE)


ACTIONS: Final[Mapping[str, type[Action]]] = _Registry()
