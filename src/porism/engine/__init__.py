"""The engine: which memory stands behind a buffer, and how a tensor graph gets its values."""
