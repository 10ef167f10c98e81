"""Tests of what comes in from other tools."""
