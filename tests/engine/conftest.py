"""What tests of the engine start from."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from porism.base.settings import settings
from porism.engine import tuned


@pytest.fixture
def nothing_tuned() -> Iterator[None]:
    """No kernel is tuned before, and nothing is on disk."""
    tuned.forget()
    with settings.override(cache=False):
        yield
    tuned.forget()
