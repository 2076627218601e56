"""``paceline plan``: from a profile or a cluster with known times to a table, a file, and back."""

import re
from pathlib import Path

from harness import command

PAIR = """
name: pair
groups:
  - {name: fast, sample_seconds: 0.357142857}
  - {name: slow, sample_seconds: 1.0}
network: {default: {bytes_per_second: 1.0e+9, latency: 3.0}}
work: {name: two cards, global_batch: 56, epoch_samples: 560}
"""


def test_c019_the_report_prints_the_alternative_it_rejected(tmp_path: Path) -> None:
    (tmp_path / "pair.yaml").write_text(PAIR)
    done = command(tmp_path, "plan", "--cluster", "pair.yaml", "--out", "plan.yaml")
    assert done.returncode == 0, done.stderr
    assert re.search(r"left out +slow +\S+ +0 ", done.stdout)
    assert "with it an update takes 21 s" in done.stdout.lower()
    assert re.search(r"allreduce on all 2 devices +2.67 +4.8% slower", done.stdout)
    assert done.stdout.splitlines()[-1] == "plan: plan.yaml"
    lines = (tmp_path / "plan.yaml").read_text().replace("share: 56", "share: 55")
    (tmp_path / "edited.yaml").write_text(lines)
    wrong = command(tmp_path, "plan", "--cluster", "pair.yaml", "--check", "edited.yaml")
    assert wrong.returncode == 2
    assert "error: the shares add up to 55; expected the global batch, 56" in wrong.stderr


def test_a_plan_without_a_profile_is_asked_for_one(tmp_path: Path) -> None:
    done = command(tmp_path, "plan")
    assert done.returncode == 2
    assert "neither a profile nor a cluster; expected one of them" in done.stderr
