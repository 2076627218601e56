"""Notices what would train something else than the loop says, without a word."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from torch import Tensor, nn

from paceline.errors import ConfigError
from paceline.reduction.window import Window


class Guard:
    """Watches the gradients of ``models``, which from here on only ``run.backward`` may make inside an update.

    Args:
        window: where the loop is in its update.
        models: as given to ``run.setup``.
    """

    def __init__(self, window: Window, models: Sequence[nn.Module]) -> None:
        self._window, self._models = window, models
        self._names = self._parameters()
        self._left: dict[Tensor, tuple[Tensor, int]] = {}  # gradients as the last micro-batch has left them
        for parameter in self._names:
            if parameter.requires_grad:
                parameter.register_post_accumulate_grad_hook(self._made)  # type: ignore[no-untyped-call]

    def check_models(self) -> None:
        """Raises ConfigError if a layer was put in, or replaced, after ``run.setup``."""
        new = [name for parameter, name in self._parameters().items() if parameter not in self._names]
        if new:
            raise ConfigError(
                f"parameter '{new[0]}' has come into the model after run.setup", remedy="Finish the model before it."
            )

    def begin_update(self) -> None:
        """A new update: what becomes of the gradients up to its first backward is the loop's own affair."""
        self._left = {}

    @contextmanager
    def backward(self) -> Iterator[None]:
        """Around what ``run.backward`` does.

        Raises:
            ConfigError: a gradient that an earlier micro-batch of this update has left is not what it was.
        """
        for parameter, (gradient, version) in self._left.items():
            if parameter.grad is not gradient or gradient._version != version:
                raise ConfigError(
                    f"the gradient of '{self._names[parameter]}' was changed between two micro-batches of one update",
                    expected="optimizer.zero_grad, model.zero_grad or run.clip_grad_norm_, which wait for the last one",
                    remedy="Make others after run.backward where the share fits at once: raise micro_batch.",
                )
        self._window.in_backward = True
        try:
            yield
        finally:
            self._window.in_backward = False
        adding = () if self._window.last else self._names
        self._left = {p: (p.grad, p.grad._version) for p in adding if p.grad is not None}

    def _made(self, parameter: Tensor) -> None:
        if self._window.open and not self._window.in_backward:
            raise ConfigError(
                "loss.backward() made gradients in the training loop, where they must be weighed and summed",
                expected="run.backward(loss)", remedy="For gradients that nothing trains on: torch.autograd.grad.",
            )  # fmt: skip

    def _parameters(self) -> dict[Tensor, str]:
        return {parameter: name for model in self._models for name, parameter in model.named_parameters()}
