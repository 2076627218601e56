"""The records that stages hand to one another, one a file. Frozen, versioned, and readable without torch."""
