"""Patience: how long tests wait for processes and threads that should end by themselves."""

from __future__ import annotations

from typing import Final

PATIENCE: Final = 600.0
"""Seconds after which something counts as hanging, also on a machine with much else to do."""
