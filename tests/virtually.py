"""Training in virtual time for tests: a recipe as text and a plan; the trace, and the weights that it saved."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch

from paceline.launchers.recipe import Recipe
from paceline.running.virtual import driver
from paceline.running.virtual.schedule import Course
from paceline.schema.plan import Plan
from paceline.schema.trace import Trace
from paceline.simulating import interpreter
from paceline.simulating.scenario import Scenario, Workload

CALM = Scenario()
TESTS = str(Path(__file__).parent)

# An MLP on 144 samples; weights and the order of what it logged tell whether two trainings were the same.
LOOP = """
import sys, torch, paceline
from torch import nn
torch.manual_seed(3)
dtype = getattr(torch, sys.argv[2])
data = torch.utils.data.TensorDataset(torch.randn(144, 6, dtype=dtype), torch.randn(144, 1, dtype=dtype))
{model}
run = paceline.init(global_batch=12)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
scheduler = torch.optim.lr_scheduler.LinearLR(optimizer, 1.0, 0.1, total_iters=24)
model, optimizer, scheduler = run.setup(model, optimizer, scheduler)
for epoch in run.epochs(2):
    for x, y in run.loader(data):
        run.backward(nn.functional.mse_loss(model(x), y))
        run.clip_grad_norm_(model, 2.0)
        optimizer.step()
        optimizer.zero_grad()
    model.eval()
    with torch.no_grad():
        batches = [(nn.functional.mse_loss(model(x), y, reduction="sum"), len(y))
                   for x, y in run.loader(data, train=False)]
    model.train()
    total, count = sum(float(loss) for loss, _ in batches), sum(size for _, size in batches)
    run.log(loss=run.reduce(total, count), rate=scheduler.get_last_lr()[0])
torch.save(model.state_dict(), f"{sys.argv[1]}/{run.rank}.pt")
"""
MODELS = {
    "plain": "model = nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 1)).to(dtype)",
    "norm": "model = nn.Sequential(nn.Linear(6, 8), nn.BatchNorm1d(8), nn.Tanh(), nn.Linear(8, 1)).to(dtype)",
    "sync": "model = nn.Sequential(nn.Linear(6, 8), nn.SyncBatchNorm(8), nn.Tanh(), nn.Linear(8, 1)).to(dtype)",
    "dropout": "model = nn.Sequential(nn.Linear(6, 8), nn.Dropout(0.4), nn.Tanh(), nn.Linear(8, 1)).to(dtype)",
}


def loop(model: str) -> str:
    return LOOP.replace("{model}", MODELS[model])


def train(plan: Plan, text: str, folder: Path, *arguments: str, scenario: Scenario = CALM) -> Trace:
    """What training the recipe ``text`` in virtual time left behind."""
    folder.mkdir(parents=True, exist_ok=True)
    script = folder / "recipe.py"
    script.write_text(text)

    def foresee(size: int, epochs: int) -> Trace:
        return interpreter.simulate(plan, Workload(size, epochs, model_bytes=400), scenario)

    return driver.train(plan, Recipe(script, arguments), Course(plan, foresee))


def weights(plan: Plan, model: str, folder: Path, dtype: str = "float64") -> tuple[list[dict[str, Any]], Trace]:
    """Of each job, after training the loop above."""
    trace = train(plan, loop(model), folder, str(folder), dtype)
    return [torch.load(folder / f"{job}.pt") for job in range(len(plan.jobs))], trace
