"""The doctor: what Porism finds on a machine, and whether it works there; `porism doctor`."""
