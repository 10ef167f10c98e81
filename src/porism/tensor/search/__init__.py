"""Searching and sets: results whose size depends on values, and membership."""
