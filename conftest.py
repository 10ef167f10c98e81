"""Tests compile what they run: they neither read nor fill the user's cache, unless they ask to."""

import os

os.environ.setdefault("PORISM_CACHE", "0")
