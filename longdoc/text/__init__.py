"""Level 0: documents, words, tokens, windows, tags and stitching. Needs no torch."""
