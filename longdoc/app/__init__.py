"""Level 4: configuration to objects, the command line, reports and the embedded corpus."""
