"""Door 4: launchers, how a job's processes are started. One file and one line here for each."""

TABLE = {
    "torchrun": "paceline.launchers.torchrun:Torchrun",
}
