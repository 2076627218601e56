"""Small trainings that a crew of workers and one device alone can both run."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.data import Dataset, TensorDataset

import paceline
from paceline.running.run import Run


class Sentences(Dataset):
    """Sequences of different length: 6 features a token, the target of a padded token is ``nan``."""

    def __init__(self, lengths: list[int], dtype: torch.dtype) -> None:
        generator = torch.Generator().manual_seed(3)
        most = max(lengths)
        self.x = torch.randn(len(lengths), most, 6, generator=generator, dtype=dtype)
        self.y = torch.randn(len(lengths), most, generator=generator, dtype=dtype)
        for row, length in enumerate(lengths):
            self.y[row, length:] = torch.nan

    def __len__(self) -> int:
        return len(self.x)

    def __getitem__(self, index: int) -> tuple[Tensor, Tensor]:
        return self.x[index], self.y[index]


def done(run: Run) -> None:
    """What the end of the process does: the next job gets a run of its own."""
    run._worker._close()


def network(dtype: torch.dtype, batch_norm: bool = False) -> nn.Module:
    torch.manual_seed(7)
    middle = nn.SyncBatchNorm(8) if batch_norm else nn.Identity()
    return nn.Sequential(nn.Linear(6, 8), middle, nn.Tanh(), nn.Linear(8, 1)).to(dtype)


def result(run: Run, *models: nn.Module, **more: Any) -> dict[str, Any]:
    weights = {f"{i}.{n}": t.clone() for i, model in enumerate(models) for n, t in model.state_dict().items()}
    done(run)
    return {"weights": weights, **more}


def samples(size: int, batch: int, dtype: torch.dtype, clip: float, batch_norm: bool, losses: int) -> dict[str, Any]:
    """Means over samples."""
    torch.manual_seed(5)
    data = TensorDataset(torch.randn(size, 6, dtype=dtype), torch.randn(size, 1, dtype=dtype))
    model = network(dtype, batch_norm)
    run = paceline.init(global_batch=batch)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.2, momentum=0.9, weight_decay=0.01)
    model, optimizer = run.setup(model, optimizer)
    norms = []
    for _ in run.epochs(2):
        for x, y in run.loader(data):
            for _ in range(losses):
                run.backward(nn.functional.mse_loss(model(x), y))
            norms.append(run.clip_grad_norm_(model, clip))
            optimizer.step()
            optimizer.zero_grad()
    norms = torch.stack([norm for norm in norms if not norm.isnan()])
    return result(run, model, norms=norms, seen=run.samples_seen)


def tokens(lengths: list[int], batch: int, dtype: torch.dtype) -> dict[str, Any]:
    """Means over tokens, of which sequences have different numbers, or none."""
    data = Sentences(lengths, dtype)
    model = network(dtype)
    run = paceline.init(global_batch=batch, reduction="token-mean")
    model, optimizer = run.setup(model, torch.optim.SGD(model.parameters(), lr=0.2, momentum=0.9))
    for _ in run.epochs(2):
        for x, y in run.loader(data):
            valid = ~y.isnan()
            count = int(valid.sum())
            errors = (model(x).squeeze(-1) - y.nan_to_num())[valid].square()
            run.backward(errors.sum() / max(count, 1), weight=count)
            optimizer.step()
            optimizer.zero_grad()
    return result(run, model, seen=run.samples_seen)


def sums(size: int, batch: int, dtype: torch.dtype) -> dict[str, Any]:
    """Sums over samples."""
    torch.manual_seed(5)
    data = TensorDataset(torch.randn(size, 6, dtype=dtype))
    model = network(dtype)
    run = paceline.init(global_batch=batch, reduction="sum")
    model, optimizer = run.setup(model, torch.optim.SGD(model.parameters(), lr=0.01))
    for _ in run.epochs(2):
        for (x,) in run.loader(data):
            run.backward(model(x).square().sum())
            optimizer.step()
            optimizer.zero_grad()
    return result(run, model, seen=run.samples_seen)


def dropping() -> dict[str, Any]:
    """A network with dropout."""
    torch.manual_seed(5)
    data = TensorDataset(torch.randn(50, 6, dtype=torch.float64))
    torch.manual_seed(7)
    model = nn.Sequential(nn.Linear(6, 8), nn.Dropout(0.4), nn.Linear(8, 1)).double()
    run = paceline.init(global_batch=12)
    model, optimizer = run.setup(model, torch.optim.SGD(model.parameters(), lr=0.05))
    for _ in run.epochs(2):
        for (x,) in run.loader(data):
            run.backward(model(x).square().mean())
            optimizer.step()
            optimizer.zero_grad()
    return result(run, model, seen=run.samples_seen)


class OwnNorm(nn.BatchNorm2d):
    """A BatchNorm that does more, as libraries have them."""

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x).relu()


def images(sizes: tuple[int, int], dtype: torch.dtype, layers: str) -> dict[str, Any]:
    """A network with BatchNorm over images, trained, then asked for its outputs in evaluation."""
    size, batch = sizes
    torch.manual_seed(5)
    data = TensorDataset(torch.randn(size, 2, 3, 3, dtype=dtype), torch.randn(size, 1, dtype=dtype))
    torch.manual_seed(7)
    layer = OwnNorm(4) if layers == "own" else nn.BatchNorm2d(4)
    model = nn.Sequential(nn.Conv2d(2, 4, 2), layer, nn.Tanh(), nn.Flatten(), nn.Linear(16, 1)).to(dtype)
    if layers == "sync":
        model = nn.SyncBatchNorm.convert_sync_batchnorm(model)
    run = paceline.init(global_batch=batch)
    model, optimizer = run.setup(model, torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9))
    for _ in run.epochs(2):
        for x, y in run.loader(data):
            run.backward(nn.functional.mse_loss(model(x), y))
            optimizer.step()
            optimizer.zero_grad()
    model.eval()
    with torch.no_grad():
        outputs = model(data.tensors[0])
    return result(run, model, seen=run.samples_seen, outputs=outputs)


SAMPLES, EPOCHS = 100, 2


class Spy:
    """A strategy's program, and what it yields."""

    def __init__(self, executor: Any) -> None:
        self.program, self.seen = executor._program, [repr(executor._next)]
        executor._program = self

    def send(self, answer: Any) -> Any:
        operation = self.program.send(answer)
        self.seen.append(repr(operation))
        return operation


def operations() -> tuple[int, list[str]]:
    """This worker's rank and the operations its program came to, but the last, which waits for an epoch."""
    data = TensorDataset(torch.arange(float(SAMPLES)).unsqueeze(1))
    model = nn.Linear(1, 1)
    run = paceline.init(global_batch=6)
    spy = Spy(run._worker.executor)
    run._loop.watch.slowness = lambda samples: 1.0  # as planned: time has no say in what is done
    model, optimizer = run.setup(model, torch.optim.SGD(model.parameters(), lr=0.0))
    for _ in run.epochs(EPOCHS):
        for (x,) in run.loader(data):
            run.backward(model(x).mean())
            optimizer.step()
            optimizer.zero_grad()
    done(run)
    return run.rank, spy.seen[:-1]


def small(seed: int = 7) -> nn.Sequential:
    torch.manual_seed(seed)
    return nn.Sequential(nn.Linear(6, 5), nn.Tanh(), nn.Linear(5, 1)).double()


def alike(results: list[dict[str, Any]], one: dict[str, Any] | None = None, tolerance: float = 1e-12) -> None:
    """All workers have the same weights, and within ``tolerance`` those of ``one``."""
    for result in results:
        for name, weight in (one or results[0])["weights"].items():
            assert torch.allclose(result["weights"][name], weight, rtol=tolerance, atol=tolerance), name
        for name, weight in results[0]["weights"].items():
            assert torch.equal(result["weights"][name], weight), name
