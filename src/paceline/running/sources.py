"""Where the workers of a group find the server's leases and weights."""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.distributed as dist
from torch import Tensor

from paceline import tables
from paceline.errors import ConfigError, LinkError
from paceline.ops import Range
from paceline.schema.hello import Hello
from paceline.server.client import Client
from paceline.transports import TABLE
from paceline.transports.base import Transport


class ServerSource:
    """A group's view of the server. The leader speaks; the other members hear the answer from it."""

    def __init__(self, client: Client | None, members: int) -> None:
        self.client, self._members = client, members
        self.samples = 0
        self.main: bool | None = None  # this group is the first that is left; None before it was heard of

    def lease(self, epoch: int, size: int, want: int, batch: int, ahead: bool) -> Range:
        """The group's next range of the epoch; see ``Client.lease``."""
        answer = torch.zeros(4, dtype=torch.int64)
        if self.client is not None:
            granted, samples = self.client.lease(epoch, size, want, batch, ahead)
            answer[:] = torch.tensor([granted.start, granted.stop, samples, int(self.client.main)])
        self.share(answer)
        start, stop, self.samples, main = (int(number) for number in answer)
        self.main = bool(main)
        return Range(start, stop)

    def told(self, samples: int) -> int:
        """The leader's number of samples, in each member."""
        number = torch.tensor([samples])
        self.share(number)
        return int(number)

    def share(self, tensor: Tensor) -> None:
        """Give the leader's ``tensor`` to the group's other members."""
        if self._members > 1:
            dist.broadcast(tensor, src=0)


@dataclass(frozen=True)
class Newcomer:
    """A group that joins: its name, its place among the groups, the values it exchanges, and what its leader says of
    itself."""

    group: str
    place: int
    size: int
    hello: Hello


def join(url: str, host: str, token: str, me: Newcomer, timeout: float, wire: str = "float32") -> tuple[Client, bool]:
    """Join the run's server and open the group's link, over which weights go in the format ``wire``.

    Returns:
        The client, and whether this group must bring the initial weights (flat float32 of ``size`` values).

    Raises:
        ConfigError: the server refuses.
        LinkError: the server is not there.
    """
    import httpx  # only where there is a server: it takes a while

    try:
        answer = httpx.post(
            f"{url}/join",
            json={"group": me.group, "place": me.place, "size": me.size, "hello": me.hello.model_dump()},
            headers={"Authorization": f"Bearer {token}"},
            timeout=timeout,
            trust_env=False,
        )
        content = answer.json()
    except (httpx.HTTPError, ValueError) as error:
        raise LinkError(f"no answer from the server at {url}: {error}", remedy="See its log.") from error
    if answer.status_code != httpx.codes.OK:
        reason = str(content.get("error", answer.status_code)).rstrip(".")
        raise ConfigError(f"the server at {url} refused: {reason}", where=str(me.hello))
    kind: type[Transport] = tables.load("transport", TABLE, "pair")
    transport = kind.dial(host, content["port"], timeout)
    return Client(transport.open(content["key"]), wire), content["initialise"]
