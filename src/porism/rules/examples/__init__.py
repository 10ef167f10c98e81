"""Examples: small graphs on which rules and procedures are tried."""
