"""Listening sockets."""

from __future__ import annotations

import socket

from paceline.errors import LaunchError


def listen(host: str, port: int) -> socket.socket:
    """A socket that listens on ``host``; port 0 takes a free one.

    Raises:
        LaunchError: the port is taken, or the address is not this host's.
    """
    door = socket.socket()
    door.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        door.bind((host, port))
        door.listen(128)
    except (OSError, OverflowError) as error:
        door.close()
        reason = getattr(error, "strerror", None) or str(error)
        raise LaunchError(
            f"cannot listen on {host}:{port}: {reason}", remedy="Choose another --port, or 0 for a free one."
        ) from error
    return door
