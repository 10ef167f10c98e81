"""Tests compile what they run, and check every stage of that.

They neither read nor fill the user's cache, unless they ask to.
"""

import os

from hypothesis import settings

os.environ.setdefault("PORISM_CACHE", "0")
os.environ.setdefault("PORISM_CHECK", "1")

settings.register_profile("porism", deadline=None)  # how long an example takes proves nothing
settings.load_profile("porism")
