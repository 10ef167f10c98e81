"""Contractions: schedules of matrix products and convolutions, in register tiles and panels."""
