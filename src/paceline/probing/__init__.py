"""Measuring what the devices of a cluster can do, with the user's own recipe."""
