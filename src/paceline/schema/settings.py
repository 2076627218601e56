"""What ``paceline.init`` is told: the same on every worker, and the same again when a run is resumed."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, model_validator

from paceline.schema.record import Record

Reduction = Literal["sample-mean", "token-mean", "sum"]
Precision = Literal["float32", "bfloat16", "float16", "auto"]
RateRule = Literal["none", "linear", "sqrt"]


class Settings(Record):
    """See ``paceline.init``."""

    global_batch: Annotated[int, Field(ge=1)]
    seed: int = 0
    reduction: Reduction = "sample-mean"
    precision: Precision = "float32"
    lr_rule: RateRule = "none"
    base_batch: Annotated[int, Field(ge=1)] | None = None

    @model_validator(mode="after")
    def _consistent(self) -> Settings:
        if self.lr_rule != "none" and self.base_batch is None:
            raise ValueError(
                f"lr_rule is '{self.lr_rule}' without base_batch; give the batch that the learning rate was chosen for"
            )
        return self

    @property
    def rate_factor(self) -> float:
        """What ``lr_rule`` multiplies learning rates with."""
        if self.lr_rule == "none" or self.base_batch is None:
            return 1.0
        ratio = self.global_batch / self.base_batch
        return ratio if self.lr_rule == "linear" else ratio**0.5
