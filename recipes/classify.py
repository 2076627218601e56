"""Train an image classifier on unequal devices: the recipe that `paceline demo` runs.

python recipes/classify.py                                                     one device
paceline run --cluster clusters/mixed4.yaml --strategy hybrid recipes/classify.py -- --epochs 30
"""

from __future__ import annotations

import argparse
import math
import sys
from pathlib import Path

import images
import torch
from torch import nn
from torch.nn.functional import cross_entropy

import paceline


def main() -> None:
    args = arguments()
    try:
        train_set, test_set = images.load(args.data, args.data_dir)
    except images.DataError as error:
        print(error, file=sys.stderr)
        sys.exit(2)
    train_set = torch.utils.data.TensorDataset(*train_set[: args.samples])
    torch.manual_seed(args.seed)  # every worker starts from the same weights
    model = digits_cnn() if args.data == "digits" else fashion_cnn()
    optimizer = torch.optim.SGD(model.parameters(), lr=args.lr, momentum=args.momentum)
    updates = math.ceil(args.epochs * len(train_set) / args.global_batch)
    scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda update: rate(update, updates, args.warm_up))

    run = paceline.init(global_batch=args.global_batch)
    model, optimizer, scheduler = run.setup(model, optimizer, scheduler)
    for epoch in run.epochs(args.epochs):
        for x, y in run.loader(train_set):
            loss = cross_entropy(model(x), y)
            run.backward(loss)
            optimizer.step()
            optimizer.zero_grad()
        loss, accuracy = evaluate(run, model, test_set)
        run.log(loss=loss, accuracy=accuracy)
        run.print(f"epoch {epoch + 1}/{args.epochs}  test loss {loss:.4f}  test accuracy {accuracy:.4f}")


@torch.no_grad()
def evaluate(run: paceline.Run, model: nn.Module, test_set: torch.utils.data.Dataset) -> tuple[float, float]:
    """Mean loss and accuracy over the whole test set, whichever worker saw which part of it."""
    model.eval()
    loss, correct, count = 0.0, 0, 0
    for x, y in run.loader(test_set, train=False):
        scores = model(x)
        loss += cross_entropy(scores, y, reduction="sum").item()
        correct += (scores.argmax(1) == y).sum().item()
        count += len(y)
    model.train()
    return run.reduce(loss, count), run.reduce(correct, count)


def rate(update: int, updates: int, warm_up: float) -> float:
    """The part of --lr to use at a global update: up in a line over the warm-up, then down in a line to 0."""
    rising = max(1, round(warm_up * updates))
    if update < rising:
        return (update + 1) / rising
    return max(0.0, (updates - update) / max(1, updates - rising))


def digits_cnn() -> nn.Sequential:
    """For 8x8 images: 122 thousand parameters."""
    return nn.Sequential(
        nn.Conv2d(1, 32, kernel_size=3, padding=1),
        nn.ReLU(),
        nn.Conv2d(32, 64, kernel_size=3, padding=1),
        nn.ReLU(),
        nn.Conv2d(64, 64, kernel_size=3, padding=1),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(64 * 4 * 4, 64),
        nn.ReLU(),
        nn.Linear(64, 10),
    )


def fashion_cnn() -> nn.Sequential:
    """For 28x28 images: 1.2 million parameters."""
    return nn.Sequential(
        nn.Conv2d(1, 32, kernel_size=3, padding=1),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(32, 64, kernel_size=3, padding=1),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(64 * 7 * 7, 384),
        nn.ReLU(),
        nn.Linear(384, 10),
    )


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Train an image classifier on devices of unequal speed.")
    parser.add_argument("--data", choices=["digits", "fashion-mnist"], default="digits")
    parser.add_argument("--data-dir", type=Path, help="folder with the idx .gz files of fashion-mnist")
    parser.add_argument("--samples", type=int, help="train on the first so many only")
    parser.add_argument("--epochs", type=int, default=15)
    parser.add_argument("--lr", type=float, default=0.1)
    parser.add_argument("--momentum", type=float, default=0.9)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--global-batch", type=int, default=128, help="samples of one update of the whole cluster")
    parser.add_argument("--warm-up", type=float, default=0.05, help="part of training that raises the learning rate")
    return parser.parse_args()


if __name__ == "__main__":
    main()
