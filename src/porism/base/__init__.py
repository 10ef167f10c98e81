"""What every layer stands on: dtypes, targets, errors and settings; no knowledge of the IR."""
