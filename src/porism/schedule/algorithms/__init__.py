"""Algorithms: stages on the tensor graph that compute a value in another way than it is written."""
