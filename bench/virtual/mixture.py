"""Classes that are mixtures of Gaussians: the task of the asynchronous local SGD paper, with a narrower layer.

Liu et al., "Asynchronous Local-SGD Training for Language Modeling" (2024), and the example published with it: 32
centres of length 1 in 512 dimensions, noise of 0.5 in each, 8 centres to a class, 128,000 samples; one hidden layer;
the loss is that of 10,000 of the samples. Their layer has 65,000 units, this one ``--width``.
"""

from __future__ import annotations

import argparse
import math

import torch
from torch import nn
from torch.nn.functional import cross_entropy
from torch.utils.data import TensorDataset

import paceline

SAMPLES, TESTED, SIZE, CLASSES, CENTRES, NOISE = 128_000, 10_000, 512, 4, 32, 0.5


def main() -> None:
    args = arguments()
    samples, labels = mixture()
    torch.manual_seed(args.seed)
    model = nn.Sequential(nn.Linear(SIZE, args.width), nn.ReLU(), nn.Linear(args.width, CLASSES))
    optimizer = torch.optim.AdamW(model.parameters(), lr=args.lr, weight_decay=1e-3)
    updates = args.epochs * SAMPLES // args.global_batch
    scheduler = torch.optim.lr_scheduler.LambdaLR(
        optimizer, lambda update: 0.5 * (1 + math.cos(math.pi * min(1.0, update / updates)))
    )
    run = paceline.init(global_batch=args.global_batch, seed=args.seed)
    model, optimizer, scheduler = run.setup(model, optimizer, scheduler)
    for _ in run.epochs(args.epochs):
        for x, y in run.loader(TensorDataset(samples, labels)):
            run.backward(cross_entropy(model(x), y))
            optimizer.step()
            optimizer.zero_grad()
    loss, count = 0.0, 0
    with torch.no_grad():
        for x, y in run.loader(TensorDataset(samples[:TESTED], labels[:TESTED]), train=False):
            loss += cross_entropy(model(x), y, reduction="sum").item()
            count += len(y)
    run.log(loss=run.reduce(loss, count))


def mixture() -> tuple[torch.Tensor, torch.Tensor]:
    """Samples in a random order, and their classes: the same in each process."""
    generator = torch.Generator().manual_seed(42)
    centres = torch.randn(CENTRES, SIZE, generator=generator)
    centres /= centres.norm(dim=1, keepdim=True)
    which = torch.arange(CENTRES).repeat(SAMPLES // CENTRES)[torch.randperm(SAMPLES, generator=generator)]
    samples = centres[which] + NOISE * torch.randn(SAMPLES, SIZE, generator=generator)
    return samples, which // (CENTRES // CLASSES)


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    parser.add_argument("--lr", type=float, default=1e-3)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--width", type=int, default=1024)
    parser.add_argument("--global-batch", type=int, default=128)
    return parser.parse_args()


if __name__ == "__main__":
    main()
