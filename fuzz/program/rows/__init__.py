"""Rows: for every public function, how a call of it is drawn, by topic."""
