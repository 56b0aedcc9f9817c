"""Level 3: Lightning modules, data, metrics and optimisation."""
