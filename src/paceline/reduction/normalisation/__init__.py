"""BatchNorm on workers with unequal shares: over all their samples at once, re-estimated, or made GroupNorm."""

from paceline.reduction.normalisation.cross import CrossBatchNorm, cross_batch_norm
from paceline.reduction.normalisation.group import to_group_norm
from paceline.reduction.normalisation.population import reestimate

__all__ = ["CrossBatchNorm", "cross_batch_norm", "reestimate", "to_group_norm"]
