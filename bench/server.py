"""A push and a pull of 100 MB on loopback, beside what two bare processes carry on the same link in the same run.

paceline bench server            interleaved rounds, medians; then what an update touches beside a plain copy
paceline bench server --quick    10 MB

Bar: a push plus a pull at 0.8 or more of the bare link's rate. The server is a process of its own, as in a run.
"""

from __future__ import annotations

import statistics
import sys
import threading
import time
from collections.abc import Callable
from functools import partial
from multiprocessing import get_context
from multiprocessing.connection import Connection

import torch
from rich.console import Console
from rich.table import Table
from torch import Tensor

from paceline.server import rules
from paceline.server.client import Client
from paceline.server.messages import Progress
from paceline.server.program import ParameterServer
from paceline.server.rules.base import PushInfo
from paceline.transports.base import Link
from paceline.transports.pair import PairTransport

HOST, TIMEOUT = "127.0.0.1", 60.0
ROUNDS, WARM_UP = 30, 3
BAR = 0.8


def other_side(values: int, told: Connection) -> None:
    """A process that takes and gives as many bytes on one link, and is a server on another."""
    torch.set_num_threads(1)
    meeting = PairTransport.listen(HOST, 0, TIMEOUT)
    told.send(meeting.port)
    bare, room, other = meeting.open("bare"), torch.empty(values), torch.zeros(values)
    server = ParameterServer(rules.load("merge"), groups=1, global_batch=1)
    server.join("group", values)
    serving = threading.Thread(target=server.serve, args=("group", meeting.open("group")))
    serving.start()
    for _ in range(WARM_UP + ROUNDS):
        bare.recv(room)
        bare.send(other)
    serving.join()


def seconds(work: Callable[[], object]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def measured(values: int) -> tuple[list[float], list[float]]:
    """Seconds of rounds on the bare link, and of those with the server."""
    context = get_context("spawn")
    here, there = context.Pipe()
    process = context.Process(target=other_side, args=(values, there), daemon=True)
    process.start()
    torch.set_num_threads(1)
    meeting = PairTransport.dial(HOST, here.recv(), TIMEOUT)
    bare, delta, out = meeting.open("bare"), torch.zeros(values), torch.zeros(values)
    client = Client(meeting.open("group"))
    client.initialise(out, Progress(0, -1, 0, ()), values)
    found = [(seconds(lambda: echo(bare, delta, out)), exchange(client, delta, out)) for _ in range(WARM_UP + ROUNDS)]
    client.leave()
    process.join()
    return [one for one, _ in found[WARM_UP:]], [other for _, other in found[WARM_UP:]]


def echo(link: Link, delta: Tensor, out: Tensor) -> None:
    link.send(delta)
    link.recv(out)


def exchange(client: Client, delta: Tensor, out: Tensor) -> float:
    def work() -> None:
        client.push(delta, samples=1, steps=1, basis=0)
        client.pull(out)
        client.finish()

    return seconds(work)


def touched(values: int) -> list[tuple[str, int, float]]:
    """Each rule with the bytes a value that its update reads and writes, and seconds of it over those of a copy."""
    weights, delta, push = torch.zeros(values), torch.zeros(values), PushInfo(1, 1, 1, 0)
    found = []
    for name, bytes_a_value in {"merge": 12, "delayed_nesterov": 60}.items():
        rule = rules.load(name)
        state = rule.init(weights)
        update, copy = partial(rule.update, weights, delta, state, push), partial(delta.copy_, weights)
        pairs = [(seconds(update), seconds(copy)) for _ in range(ROUNDS)]
        updates, copies = zip(*pairs[WARM_UP:], strict=True)
        found.append((name, bytes_a_value, statistics.median(updates) / statistics.median(copies)))
    return found


def main() -> None:
    values = (10 if "--quick" in sys.argv else 100) * 250_000
    bare, served = measured(values)
    table = Table(title=f"{4 * values / 1e6:.0f} MB each way on loopback, {ROUNDS} interleaved rounds")
    for name in ("", "ms, median", "least..most", "MB/s"):
        table.add_column(name, justify="left" if not name else "right")
    for name, found in {"bare link": bare, "push plus pull": served}.items():
        middle, span = statistics.median(found), f"{1e3 * min(found):.0f}..{1e3 * max(found):.0f}"
        table.add_row(name, f"{1e3 * middle:.0f}", span, f"{8 * values / 1e6 / middle:,.0f}")
    Console().print(table)
    torch.set_num_threads(1)
    for name, bytes_a_value, times in touched(values):
        print(f"{name}: touches {bytes_a_value} bytes a value, {times:.1f} times a copy's seconds, which touches 8")
    part = statistics.median(bare) / statistics.median(served)
    print(f"server part_of_bare_link={part:.3f} bar={BAR}")
    sys.exit(0 if part >= BAR else 1)


if __name__ == "__main__":
    main()
