"""Torch workers: the parts of the suites that import torch, run in processes of their own."""
