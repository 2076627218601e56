"""Any split of the global batch gives the update that one device gives on the whole batch (design, promise 1)."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

import harness

RECIPE = """
import sys, torch, paceline
from torch import nn
from torch.utils.data import TensorDataset

dtype, size, out = getattr(torch, sys.argv[1]), int(sys.argv[2]), sys.argv[3]
torch.manual_seed(7)
data = TensorDataset(torch.randn(size, 6, dtype=dtype), torch.randn(size, 3, dtype=dtype))
model = nn.Sequential(nn.Linear(6, 16), nn.Tanh(), nn.Linear(16, 3)).to(dtype)
optimizer = torch.optim.SGD(model.parameters(), lr=0.3, momentum=0.9)
scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda update: 1 / (1 + update))
run = paceline.init(global_batch=8)
model, optimizer, scheduler = run.setup(model, optimizer, scheduler)
norms, drawn = [], 0
for epoch in run.epochs(3):
    for x, y in run.loader(data):
        run.backward(nn.functional.mse_loss(model(x), y))
        run.backward(model(x).square().mean())  # a second loss of the same update
        norms.append(run.clip_grad_norm_(model, 0.5))
        optimizer.step()
        (model if epoch else optimizer).zero_grad()
        scheduler.step()
norms = [norm for norm in norms if not norm.isnan()]
torch.save({"weights": run.unwrap(model).state_dict(), "norms": torch.stack(norms), "seen": run.samples_seen,
            "lr": optimizer.param_groups[0]["lr"]}, f"{out}/{run.place.rank}.pt")
"""


def train(tmp_path: Path, strategy: str, workers: list, dtype: str, size: int) -> list[dict]:
    harness.run(harness.plan(strategy, workers), RECIPE, tmp_path, dtype, str(size), str(tmp_path))
    return [torch.load(tmp_path / f"{rank}.pt") for rank in range(len(workers))]


@pytest.mark.parametrize(("dtype", "tolerance"), [("float64", 1e-12), ("float32", 1e-5)])
def test_shares_5_2_1_train_as_one_device(tmp_path: Path, dtype: str, tolerance: float) -> None:
    """19 samples at 8 an update: whole updates, then 3 samples of which the last worker gets none; the first worker
    needs three micro-batches for its share."""
    uneven = [harness.worker(5, micro_batch=2), harness.worker(2), harness.worker(1)]
    (one,) = train(tmp_path / "one", "alone", [harness.worker(8)], dtype, 19)
    for many in train(tmp_path / "many", "allreduce", uneven, dtype, 19):
        for name, weight in one["weights"].items():
            error = (many["weights"][name] - weight).norm() / weight.norm()
            assert error <= tolerance, f"{name}: {error:.1e}"
        assert torch.allclose(many["norms"], one["norms"], rtol=tolerance, atol=0)
        assert many["seen"] == one["seen"] == 57
        assert many["lr"] == one["lr"] == pytest.approx(0.3 / 9)
