from __future__ import annotations

import random

import numpy as np
import torch
from torch.utils.data import ConcatDataset, Dataset, Subset, TensorDataset

from paceline.data.batches import fetch


class Augmented(Dataset[torch.Tensor]):
    """A sample is its index and what three generators drew for it."""

    def __len__(self) -> int:
        return 12

    def __getitem__(self, index: int) -> torch.Tensor:
        return torch.tensor([index, random.random(), np.random.random(), torch.rand(()).item()])


class Together(Augmented):
    def __getitems__(self, indices: list[int]) -> list[torch.Tensor]:
        return [self[index] for index in indices]


def test_what_a_sample_draws_is_its_own_whatever_batch_it_is_in() -> None:
    every = Augmented()
    for dataset in (
        every,
        Subset(every, range(12)),
        ConcatDataset([every]),
        Subset(Subset(every, range(12)), range(12)),
    ):
        whole = fetch(dataset, range(12), key=(1, 2))
        parts = torch.cat([fetch(dataset, [7, 3], key=(1, 2)), fetch(dataset, [5], key=(1, 2))])
        assert torch.equal(parts, whole[[7, 3, 5]])
        assert whole[:, 1:].unique().numel() == 36
        assert not torch.equal(fetch(dataset, [7], key=(1, 3)), whole[7:8])


def test_a_dataset_that_gives_many_at_once_is_asked_once() -> None:
    asked: list[list[int]] = []

    class Asked(Together):
        def __getitems__(self, indices: list[int]) -> list[torch.Tensor]:
            asked.append(indices)
            return super().__getitems__(indices)

    for dataset in (Asked(), Subset(Asked(), [3, 2, 1])):
        first = fetch(dataset, [2, 0], key=(1, 2))
        assert torch.equal(first, fetch(dataset, [2, 0], key=(1, 2)))
    assert asked == [[2, 0]] * 2 + [[1, 3]] * 2


def test_tensors_are_cut_in_one_piece() -> None:
    x, y = torch.arange(10.0), torch.arange(10)
    assert [part.tolist() for part in fetch(TensorDataset(x, y), [4, 1])] == [[4.0, 1.0], [4, 1]]
