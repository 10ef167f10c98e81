"""Front ends: what comes in from other tools."""
