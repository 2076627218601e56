"""Samples: one global order an epoch, cut unevenly, each position trained once."""
