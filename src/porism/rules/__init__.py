"""The rules of the compiler, one topic a file; `rule_sets` puts them together."""
