"""Doctor: report the machine and run a self-test; `porism doctor`."""
