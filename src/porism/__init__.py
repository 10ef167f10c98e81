"""Porism: a tensor compiler whose rewrite rules are data, and proved."""

__version__ = "0.1.0"
