from __future__ import annotations

from pathlib import Path

from torch.distributed.run import parse_args

from paceline.launchers.base import Job
from paceline.launchers.torchrun import Torchrun


def test_arguments_of_the_recipe_are_not_taken_for_torchruns() -> None:
    arguments = ["--log", "3", "--n=4", "--", "-h"]
    command = Torchrun().command(Job("all", 2, Path("recipe.py"), tuple(arguments)))
    parsed = parse_args(command[command.index("paceline.launchers.agent") + 1 :])
    assert (parsed.training_script, parsed.training_script_args) == ("recipe.py", arguments)
    assert parsed.nproc_per_node == "2"
