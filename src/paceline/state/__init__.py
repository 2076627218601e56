"""A training state as tensors: flat for an exchange, by name for a checkpoint."""
