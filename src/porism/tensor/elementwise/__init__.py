"""Elementwise functions beside those of the Array API."""
