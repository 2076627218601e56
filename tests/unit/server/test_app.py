"""The HTTP service, asked by a real client over its real routes."""

from __future__ import annotations

import pytest
from starlette.testclient import TestClient

from paceline.server.app import app
from paceline.server.messages import Channel
from paceline.server.program import ParameterServer
from paceline.server.rules.merge import Merge
from paceline.transports.memory import MemoryTransport

AUTH = {"Authorization": "Bearer secret"}


def joining(group: str, size: int = 5, **different: object) -> dict[str, object]:
    hello = {
        "rank": 0,
        "host": "h",
        "versions": {"torch": "2"},
        "settings": {"global_batch": 8},
        "plan": "",
        "parameters": [["weight", [5], "float32"]],
        "optimizers": ["SGD"],
        "scalers": [],
    }
    return {"group": group, "size": size, "hello": {**hello, **different}}


@pytest.fixture
def client() -> TestClient:
    meeting = MemoryTransport.listen("", 0, timeout=0.2)

    def open_link(key: str) -> Channel:
        return meeting.open(key)

    server = ParameterServer(Merge(), groups=2, global_batch=8)
    return TestClient(app(server, "secret", open_link, link_port=4242))


def test_join_says_where_the_link_is_and_who_brings_the_weights(client: TestClient) -> None:
    first = client.post("/join", json=joining("a"), headers=AUTH)
    assert first.json() == {"key": "link/a", "initialise": True, "port": 4242}
    second = client.post("/join", json=joining("b"), headers=AUTH)
    assert second.json()["initialise"] is False


def test_status_tells_groups_and_ledger(client: TestClient) -> None:
    client.post("/join", json=joining("a"), headers=AUTH)
    told = client.get("/status", headers=AUTH).json()
    assert told["ledger"] == {"epoch": -1, "size": 0, "done": 0}
    assert told["events"][0]["what"] == "a"


@pytest.mark.parametrize("headers", [{}, {"Authorization": "Bearer wrong"}, {"Authorization": "secretx"}])
@pytest.mark.parametrize("path", ["/join", "/status", "/nothing"])
def test_without_the_token_nothing_is_told(client: TestClient, path: str, headers: dict[str, str]) -> None:
    assert client.request("POST" if path == "/join" else "GET", path, headers=headers).status_code == 401


@pytest.mark.parametrize(
    "body", [b"", b"{", b"[]", b'{"group": "a"}', b'{"group": "a", "size": "x"}', b"\xff\xfe", b"1"]
)
def test_a_malformed_join_is_a_400(client: TestClient, body: bytes) -> None:
    answer = client.post("/join", content=body, headers=AUTH)
    assert answer.status_code == 400
    assert "expected" in answer.json()["error"]


def test_a_join_that_does_not_fit_is_a_409_with_the_sentence(client: TestClient) -> None:
    client.post("/join", json=joining("a"), headers=AUTH)
    answer = client.post("/join", json=joining("b", 6), headers=AUTH)
    assert answer.status_code == 409
    assert "expected 5" in answer.json()["error"]
