"""The wires between devices: what a cluster file says of them, or a probe measured."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Field

from paceline.schema.record import MOST, Record

Rate = Annotated[float, Field(ge=1 / MOST)]
Seconds = Annotated[float, Field(ge=0, le=MOST)]


class Link(Record):
    """One direction of a wire or of a port. Defaults: gloo on loopback, as `paceline bench link` measures it."""

    bytes_per_second: Rate = 1.2e9
    latency: Seconds = 3e-4

    def over(self, measured: Link | None) -> Link:
        """What is said here, and for the rest what was measured."""
        return (measured or Link()).model_copy(update=self.model_dump(exclude_unset=True))


class Between(Link):
    """The wire between two groups, shared by all that crosses it in one direction."""

    groups: tuple[str, str]


class Network(Record):
    """All wires of a cluster.

    default: where nothing more exact is said.
    inside: of each group, between its devices.
    ports: of each group, its own way out (and in) to all others and to the server, shared by all its transfers.
    across: what a ring over all devices amounts to, where an all-reduce over them was measured.
    between: wires between two groups, tighter than the ports of both.
    server: the port of each shard of the parameter server, shared by all groups.
    server_seconds: of the server's own work for a push and a pull, beside which it serves no other.
    server_at: the group whose ``between`` wires lead to the server too; the server then stands there.
    """

    default: Link = Link()
    inside: dict[str, Link] = Field(default_factory=dict)
    ports: dict[str, Link] = Field(default_factory=dict)
    across: Link | None = None
    between: tuple[Between, ...] = ()
    server: Link | None = None
    server_seconds: Seconds = 0.0
    server_at: str | None = None

    def over(self, measured: Network) -> Network:
        """What is said here of any wire goes before what was measured, and before what follows from that."""
        values: dict[str, Any] = {name: getattr(self, name) for name in self.model_fields_set}
        for name in values.keys() & {"inside", "ports"}:
            known = getattr(measured, name)
            values[name] = known | {group: wire.over(known.get(group)) for group, wire in values[name].items()}
        for name in values.keys() & {"default", "server"}:
            values[name] = values[name] and values[name].over(getattr(measured, name))
        whole = {"across": None} if values.keys() & {"default", "ports", "between"} else {}
        return measured.model_copy(update={**whole, **values})
