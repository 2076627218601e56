"""What a run needs beside tensors: join and status over HTTP, with a token. Loopback unless told otherwise."""

from __future__ import annotations

import hmac
import socket
import threading
from collections.abc import Callable

import uvicorn
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.middleware.base import BaseHTTPMiddleware, RequestResponseEndpoint
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from paceline.errors import PacelineError
from paceline.schema.hello import Hello
from paceline.server.messages import Channel
from paceline.server.program import ParameterServer


def app(server: ParameterServer, token: str, open_link: Callable[[str], Channel], link_port: int) -> Starlette:
    """The HTTP service of one server.

    ``POST /join {"group", "place", "size", "hello"}`` gives ``{"key", "initialise", "port"}``, where to open the link.
    ``GET /status`` answers membership, versions, staleness, the ledger and the events.
    """

    async def join(request: Request) -> Response:
        try:
            wanted = await request.json()
            group, place, size = str(wanted["group"]), int(wanted.get("place", 0)), int(wanted["size"])
            hello = Hello.model_validate(wanted["hello"])
            if size < 0:
                raise ValueError(size)
        except (ValueError, KeyError, TypeError, OverflowError, RecursionError):
            return JSONResponse(
                {"error": 'expected {"group": name, "size": values, "hello": what the worker is}'}, status_code=400
            )
        try:
            initialise = server.join(group, size, hello, place)
        except PacelineError as error:
            return JSONResponse({"error": str(error)}, status_code=409)
        key = f"link/{group}"
        threading.Thread(target=_serve, args=(server, group, open_link, key), daemon=True).start()
        return JSONResponse({"key": key, "initialise": initialise, "port": link_port})

    async def status(request: Request) -> Response:
        return JSONResponse(server.status())

    async def guarded(request: Request, call_next: RequestResponseEndpoint) -> Response:
        given = request.headers.get("authorization", "").removeprefix("Bearer ")
        if not hmac.compare_digest(given.encode(), token.encode()):
            return JSONResponse({"error": "wrong or missing token"}, status_code=401)
        return await call_next(request)

    routes = [Route("/join", join, methods=["POST"]), Route("/status", status)]
    return Starlette(routes=routes, middleware=[Middleware(BaseHTTPMiddleware, dispatch=guarded)])


def run(service: Starlette, door: socket.socket, server: ParameterServer) -> None:
    """Serve until all groups have come and gone."""
    http = uvicorn.Server(uvicorn.Config(service, log_level="warning", lifespan="off"))

    def watch() -> None:
        while not server.finished:
            server.changed(1.0)
        http.should_exit = True

    threading.Thread(target=watch, daemon=True).start()
    http.run(sockets=[door])


def _serve(server: ParameterServer, group: str, open_link: Callable[[str], Channel], key: str) -> None:
    try:
        channel = open_link(key)
    except PacelineError:
        server.gave_up(group)
        return
    server.serve(group, channel)
