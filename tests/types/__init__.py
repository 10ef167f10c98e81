"""Tests of what type checkers and editors are told."""
