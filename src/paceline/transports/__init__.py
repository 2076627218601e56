"""Door 3: transports, what a link is made of. One file and one line here for each."""

TABLE = {
    "memory": "paceline.transports.memory:MemoryTransport",
    "pair": "paceline.transports.pair:PairTransport",
}
