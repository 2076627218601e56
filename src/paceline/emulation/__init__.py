"""Unequal devices on one machine: a worker is slowed, the runtime is the real one. Undone when the run ends."""
