"""torchrun that does not outlive its launcher: ``python -m paceline.launchers.agent`` takes torchrun's arguments."""

from __future__ import annotations

import runpy

from paceline.launchers import bootstrap, orphans

if __name__ == "__main__":
    orphans.end_with_launcher(bootstrap.read())  # before any worker exists: a recipe may load for long before init
    runpy.run_module("torch.distributed.run", run_name="__main__", alter_sys=True)
