"""Door 1: strategies. One file and one line here for each."""

TABLE = {
    "alone": "paceline.strategies.alone:Alone",
    "allreduce": "paceline.strategies.allreduce:AllReduce",
    "allreduce_even": "paceline.strategies.allreduce:EvenAllReduce",
    "hybrid": "paceline.strategies.hybrid:Hybrid",
    "solo": "paceline.strategies.solo:Solo",
}

AUTO = "auto"  # no strategy: the planner takes whichever promises most
