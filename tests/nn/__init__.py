"""Tests of modules, initializers and layers."""
