"""What the workers of a job add up in every update: gradients, weights, statistics."""
