"""Fuzzers: `./dev fuzz NAME --minutes N` looks for counterexamples until the time is over."""
