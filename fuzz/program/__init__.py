"""Random programs of public functions: how they are made, computed, compared and shrunk."""
