"""Viewer: a program that ran as data (kernels, stages, rules, code) and as one HTML page."""
