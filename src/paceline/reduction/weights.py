"""How much a loss counts for, by the run's ``reduction``.

A micro-batch i has n_i samples and W_i of what the loss is a mean over. The update's gradient is

    sample-mean   sum n_i L_i / sum n_i         token-mean   sum W_i L_i / sum W_i         sum   sum L_i

over all micro-batches of all workers. The divisor is known only once the last of them is there (tokens, a batch that
somebody skipped), so losses are divided by a ``nominal`` one, and the sum is corrected once. With the same factor on
every worker this is also right under a BatchNorm over all of them, where weighing gradients afterwards is not.
"""

from __future__ import annotations

import math

from torch import Tensor

from paceline.errors import ConfigError
from paceline.reduction.tally import Tally
from paceline.schema.settings import Reduction


class Weights:
    """What one worker's losses count for, update by update.

    Args:
        reduction: how the user's loss is taken over a batch.
    """

    def __init__(self, reduction: Reduction) -> None:
        self._reduction = reduction
        self.samples = 0
        self.weight = 0.0
        self._samples, self._given = 0, -1.0
        self._last: float | Tensor = 0.0
        self._nominal = 1.0

    @property
    def nominal(self) -> float | None:
        """What losses are divided by in this update; None if by nothing at all."""
        return None if self._reduction == "sum" else self._nominal

    def begin_update(self, total: int) -> None:
        """An update of ``total`` samples over all workers that reduce together."""
        self.samples, self.weight = 0, 0.0
        self._nominal = float(total)
        if self._reduction == "token-mean" and (last := float(self._last)) > 0:
            self._nominal = 2.0 ** round(math.log2(last))  # near the truth, so that half precision holds; exact

    def begin_batch(self, samples: int) -> None:
        """A micro-batch of ``samples`` samples; 0 for one that weighs nothing."""
        self._samples, self._given = samples, -1.0

    def factor(self, weight: float | None) -> float:
        """What to multiply this micro-batch's loss with before backward.

        Raises:
            ConfigError: a weight is missing, not wanted, not a number, or not that of the batch's first loss.
        """
        counted = self._counted(weight)
        if self._given < 0:
            self._given = counted
            self.samples += self._samples
            self.weight += counted
        elif counted != self._given:
            raise ConfigError(
                f"run.backward was given the weights {self._given:g} and {counted:g} in one batch",
                expected="one weight for all losses of a batch", remedy="Add the losses yourself, run.backward(a + b).",
            )  # fmt: skip
        if self._reduction == "sum":
            return float(self._samples > 0)
        return counted / self._nominal

    def settle(self, total: Tally) -> None:
        """A reduction is through, and with it the update's real divisor is known."""
        self._last = total.sum("weight")

    def _counted(self, weight: float | None) -> float:
        if self._reduction != "token-mean":
            if weight is not None:
                raise ConfigError(
                    f"run.backward was given a weight, but the run's reduction is {self._reduction}",
                    remedy='Call paceline.init(..., reduction="token-mean").',
                )
            return float(self._samples)
        if weight is None:
            raise ConfigError(
                "run.backward was given no weight, but the run's reduction is token-mean",
                remedy="Write run.backward(loss, weight=n) with the number of tokens that the loss is a mean over.",
            )
        number = float(weight)
        if not 0 <= number < math.inf:
            raise ConfigError(f"run.backward was given weight={number}", expected="0 or more")
        return number if self._samples else 0.0
