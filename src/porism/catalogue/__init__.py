"""The catalogue: every rule, lemma, procedure and pass, how each is established, and where used."""
