"""Door 1: strategies. One file and one line here for each."""

from paceline import tables

TABLE = {
    "alone": "paceline.strategies.alone:Alone",
    "allreduce": "paceline.strategies.allreduce:AllReduce",
    "allreduce_even": "paceline.strategies.allreduce:EvenAllReduce",
    "hybrid": "paceline.strategies.hybrid:Hybrid",
    "server_async": "paceline.strategies.server:ServerAsync",
    "server_sync": "paceline.strategies.server:ServerSync",
    "solo": "paceline.strategies.solo:Solo",
}

AUTO = "auto"  # no strategy: the planner takes whichever promises most
MEASURING = "solo"  # trains nothing of use


def check(name: str) -> None:
    """Raise ConfigError if a user cannot train by ``name``: a strategy, or ``AUTO``."""
    tables.check("strategy", dict.fromkeys([*(TABLE.keys() - {MEASURING}), AUTO], ""), name)
