"""Facts about nodes: bounds, residues, shapes, open ranges, and what each op computes."""
