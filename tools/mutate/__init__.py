"""Mutation testing of the rewrites: a guard is weakened, and something must notice."""
