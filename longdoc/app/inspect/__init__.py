"""``longdoc inspect``: what a corpus holds, what truncation would lose, and what that suggests, before any training."""
