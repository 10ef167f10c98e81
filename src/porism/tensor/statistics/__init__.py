"""Statistics: reductions without NaN, moments of several variables, and counts in bins."""
