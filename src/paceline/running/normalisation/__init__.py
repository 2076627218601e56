"""BatchNorm on workers with unequal shares, made GroupNorm."""

from paceline.running.normalisation.group import to_group_norm

__all__ = ["to_group_norm"]
