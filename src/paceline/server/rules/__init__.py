"""Door 2: update rules, what the server does with a push. One file and one line here for each."""

TABLE = {
    "merge": "paceline.server.rules.merge:Merge",
}
