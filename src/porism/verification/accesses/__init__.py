"""Accesses: proofs that stages keep what a kernel reads and writes."""
