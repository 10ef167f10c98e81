"""Mutation testing of the rewrites: `./dev mutate` weakens each guard, and something must notice."""
