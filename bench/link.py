"""How fast a link is: push plus pull of a large tensor between two processes on loopback, against a plain memory copy.

paceline bench link
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import time

import torch

from paceline.transports.pair import PairTransport

MEGABYTES = 100


def main() -> None:
    turns = 5 if "--quick" in sys.argv else 20
    meeting = PairTransport.listen("127.0.0.1", 0, 60.0)
    peer = subprocess.Popen([sys.executable, __file__, "peer", str(meeting.port), str(turns + 1)])
    link = meeting.open("bench")
    tensor = torch.zeros(MEGABYTES * 1_000_000 // 4)
    seconds, copies = [], []
    for _ in range(turns + 1):
        start = time.perf_counter()
        link.recv(tensor)
        link.send(tensor)
        seconds.append(time.perf_counter() - start)
        start = time.perf_counter()
        tensor.clone()
        copies.append(time.perf_counter() - start)
    peer.wait()
    rates = [2 * MEGABYTES / 1000 / second for second in seconds[1:]]
    copy = MEGABYTES / 1000 / statistics.median(copies[1:])
    print(f"{turns} round trips of {MEGABYTES} MB: {statistics.median(rates):.2f} GB/s, a memory copy {copy:.2f} GB/s")
    print(f"link gb_per_second={statistics.median(rates):.2f} range={min(rates):.2f}..{max(rates):.2f} copy={copy:.2f}")


def peer(port: int, turns: int) -> None:
    link = PairTransport.dial("127.0.0.1", port, 60.0).open("bench")
    tensor = torch.ones(MEGABYTES * 1_000_000 // 4)
    for _ in range(turns):
        link.send(tensor)
        link.recv(tensor)


if __name__ == "__main__":
    peer(int(sys.argv[2]), int(sys.argv[3])) if "peer" in sys.argv else main()
