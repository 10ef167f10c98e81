"""Tuning: candidate schedules compiled and timed in worker processes."""
