"""Suites: test cases of other projects, run by `./dev suite NAME`."""
