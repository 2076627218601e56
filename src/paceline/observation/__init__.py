"""What happened, as it happens: spans and marks of each worker, merged into one trace, and the figures read off it."""
