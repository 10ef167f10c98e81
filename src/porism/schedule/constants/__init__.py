"""Constants of a graph: literals that become arguments, and subgraphs that are computed once."""
