"""Level 2: batches, encoders, heads and losses."""
