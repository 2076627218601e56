"""The planned hybrid comes as far as synchronous training at equal samples: `paceline bench parity` in small."""

from __future__ import annotations

import statistics
from pathlib import Path

from paceline import api
from paceline.observation import metrics
from paceline.schema.cluster import Cluster, GroupSpec, Work
from paceline.simulating.scenario import Scenario

RECIPE = Path(__file__).parents[2] / "recipes" / "classify.py"
SPEEDS, BATCH, EPOCHS, SEEDS, JITTER = (4, 2, 1, 1), 64, 6, 3, 0.05


def trained(strategy: str) -> tuple[float, float]:
    """Mean accuracy and loss on the digits' test set over the seeds."""
    groups = [GroupSpec(name=f"g{at}", devices=1, sample_seconds=0.004 / speed) for at, speed in enumerate(SPEEDS)]
    work = Work(name="digits", global_batch=BATCH, epoch_samples=1437, model_bytes=490_000)
    profile = api.known(Cluster(name="lab", groups=groups, work=work))
    made, found = api.plan(profile, strategy), []
    for seed in range(SEEDS):
        arguments = f"--epochs={EPOCHS}", f"--seed={seed}", "--lr=0.05", f"--global-batch={BATCH}"
        trace = api.train_virtually(
            profile, made, api.Recipe(RECIPE, arguments), scenario=Scenario(jitter=JITTER, seed=seed)
        )
        found.append([metrics.curve(trace, name)[-1].value for name in ("accuracy", "loss")])
    accuracy, loss = (statistics.fmean(values) for values in zip(*found, strict=True))
    return accuracy, loss


def test_the_planned_hybrid_comes_as_far_as_synchronous_training_at_equal_samples() -> None:
    (exact, least), (accuracy, loss) = trained("allreduce"), trained("hybrid")
    assert exact > 0.97
    assert exact - accuracy <= 0.01
    assert loss <= 1.2 * least
