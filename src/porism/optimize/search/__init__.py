"""Search: candidate schedules of a kernel, measured."""
