"""GroupNorm in the place of BatchNorm."""

from __future__ import annotations

from typing import cast

from torch import nn
from torch.nn.modules.batchnorm import _BatchNorm

from paceline.errors import ConfigError


def to_group_norm(model: nn.Module, groups: int = 32) -> nn.Module:
    """Make every BatchNorm of a model a ``nn.GroupNorm``, which does not depend on how a batch is split.

    C channels go in the largest number of groups that divides C, is not above ``groups`` and leaves 4 channels or more
    a group, else in one (Wu and He, 2018). Parameters stay the same objects, so an optimizer may hold them already;
    running statistics are dropped. The model must be trained or fine-tuned afterwards: no GroupNorm computes what a
    BatchNorm did. ``BatchNorm2d``, ``BatchNorm3d`` and ``SyncBatchNorm`` change; ``BatchNorm1d`` stays, for over 1x1
    feature maps GroupNorm is another thing, and so do subclasses.

    Returns:
        The model, changed in place, or the new layer if the model itself is a BatchNorm.

    Raises:
        ConfigError: ``groups`` is below 1.
    """
    if groups < 1:
        raise ConfigError(f"to_group_norm was given groups={groups}", expected="1 or more")
    kinds = {nn.BatchNorm2d, nn.BatchNorm3d, nn.SyncBatchNorm}
    made = {layer: _group_norm(cast(_BatchNorm, layer), groups) for layer in model.modules() if type(layer) in kinds}
    for path, layer in list(model.named_modules(remove_duplicate=False)):
        if path and layer in made:
            model.set_submodule(path, made[layer])
    return made.get(model, model)


def _group_norm(layer: _BatchNorm, groups: int) -> nn.Module:
    channels = layer.num_features
    fitting = [count for count in range(1, groups + 1) if channels % count == 0 and channels // count >= 4]
    new = nn.GroupNorm(max(fitting, default=1), channels, layer.eps, affine=False)
    new.affine, new.weight, new.bias = layer.affine, layer.weight, layer.bias
    return new.train(layer.training)
