"""Trainings in virtual time, many of them: each method at its own best learning rate, over several seeds.

Nothing here is timed: training is exact in virtual time, whatever this machine does beside it. Each training that ends
is added to a file, and a sweep that was stopped goes on from there.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import asdict, dataclass
from multiprocessing import get_context
from pathlib import Path

PROCESSES = 2

Figures = dict[str, float]
Line = tuple[str, str]  # spread of speeds, method


@dataclass(frozen=True)
class Trial:
    """One training."""

    spread: str
    method: str
    rate: float
    seed: int


class Sweep:
    """All trials of some lines.

    Args:
        path: the file of what was trained.
        train: a training's figures; called in a process of its own.
        lines: what to compare.
        rates: learning rates that each line tries.
        seeds: how many, of which ``tried`` try every rate; the others train with the best of those.
        score: of figures, more is better; the best rate has the best mean.
    """

    def __init__(
        self, path: Path, train: Callable[[Trial], Figures], lines: Sequence[Line], rates: Sequence[float],
        seeds: tuple[int, int], score: Callable[[Figures], float],
    ) -> None:  # fmt: skip
        self._path, self._train, self.lines, self._rates = path, train, lines, rates
        (self.seeds, self._tried), self._score = seeds, score
        told = path.read_text().splitlines() if path.exists() else []
        self.found: dict[Trial, Figures] = {}
        for line in map(json.loads, told):
            self.found[Trial(**line.pop("trial"))] = line

    def run(self) -> None:
        """Train what is not trained yet."""
        tried = [Trial(*line, rate, seed) for line in self.lines for seed in range(self._tried) for rate in self._rates]
        with ProcessPoolExecutor(PROCESSES, get_context("spawn"), max_tasks_per_child=1) as pool:
            self._add(pool, tried)
            self._add(pool, [trial for line in self.lines for trial in self._best_trials(line)])

    def best(self, line: Line) -> float:
        """Its best learning rate."""
        return max(self._rates, key=lambda rate: self._mean(line, rate))

    def of(self, line: Line) -> list[Figures]:
        """A line's figures at its best rate, one for each seed."""
        return [self.found[trial] for trial in self._best_trials(line)]

    def _mean(self, line: Line, rate: float) -> float:
        return sum(self._score(self.found[Trial(*line, rate, seed)]) for seed in range(self._tried))

    def _best_trials(self, line: Line) -> list[Trial]:
        return [Trial(*line, self.best(line), seed) for seed in range(self.seeds)]

    def _add(self, pool: ProcessPoolExecutor, trials: Sequence[Trial]) -> None:
        waiting = {pool.submit(self._train, trial): trial for trial in trials if trial not in self.found}
        for done in as_completed(waiting):
            trial, figures = waiting[done], done.result()
            self.found[trial] = figures
            self._path.parent.mkdir(parents=True, exist_ok=True)
            with self._path.open("a") as file:
                file.write(json.dumps({"trial": asdict(trial), **figures}) + "\n")
            print(f"{trial}: " + ", ".join(f"{name} {value:.4g}" for name, value in figures.items()), flush=True)
