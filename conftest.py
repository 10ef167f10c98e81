"""Tests compile what they run, and check every stage of that.

They neither read nor fill the user's cache, unless they ask to.
"""

import gc
import importlib.util
import os
import signal
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import settings

if importlib.util.find_spec("torch") is None:
    collect_ignore_glob = ["src/porism/frontends/torch/*"]  # it is imported when torch asks for it

os.environ.setdefault("PORISM_CACHE", "0")
os.environ.setdefault("PORISM_CHECK", "1")

settings.register_profile("porism", deadline=None)  # how long an example takes proves nothing
settings.load_profile("porism")


@pytest.fixture
def frozen_heap() -> Iterator[None]:
    """Let garbage collections visit only objects that the test makes, not those of other tests."""
    gc.freeze()
    yield
    gc.unfreeze()


@pytest.fixture(scope="session", autouse=True)
def _examples_know_porism(doctest_namespace: dict[str, Any]) -> None:
    """Let the examples in docstrings say `porism.add(…)` without importing it."""
    import porism  # after the settings above

    doctest_namespace["porism"] = porism


@pytest.fixture
def interruptible() -> Iterator[None]:
    """An interrupt raises KeyboardInterrupt; a job in the background would ignore it."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)
