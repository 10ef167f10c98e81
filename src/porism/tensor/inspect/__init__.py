"""Inspection: explain, profile, verify and reschedule the kernels of a tensor."""
