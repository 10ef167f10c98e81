"""Habits from other libraries: names, keywords and methods."""
