"""The rules of the compiler, one topic a file; `algebra` puts them together."""
