"""Functions that move elements: reshape, join, pad, index, scatter and sort."""
