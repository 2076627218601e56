"""Pure formulas for what things cost, shared by planning and simulating."""
