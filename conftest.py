"""Tests compile what they run, and check every stage of that.

They neither read nor fill the user's cache, unless they ask to.
"""

import os

os.environ.setdefault("PORISM_CACHE", "0")
os.environ.setdefault("PORISM_CHECK", "1")
