"""What tests of the engine start from."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from porism.base.settings import settings
from porism.engine.tune import tuning_cache


@pytest.fixture
def nothing_tuned() -> Iterator[None]:
    """No kernel is tuned before, and nothing is on disk."""
    tuning_cache.forget_in_memory()
    with settings.override(cache=False):
        yield
    tuning_cache.forget_in_memory()
