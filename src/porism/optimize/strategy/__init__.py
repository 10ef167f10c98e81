"""Strategies: which actions a kind of kernel gets, without measuring."""
