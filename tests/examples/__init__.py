"""Examples: what every rule, procedure and pass of the compiler is shown and tried on."""
