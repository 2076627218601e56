"""Checkpoints: the training state as flat tensors, and those on disk."""
