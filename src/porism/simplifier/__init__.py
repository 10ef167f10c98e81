"""The simplifier for people: index expressions as text in, shorter ones with the same value out."""
