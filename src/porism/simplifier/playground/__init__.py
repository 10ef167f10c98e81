"""Playground: index expressions and rules that are typed into a page: `porism serve`."""
