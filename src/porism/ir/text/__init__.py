"""Nodes as text: expressions and outlines for people, lines and digests for files."""
