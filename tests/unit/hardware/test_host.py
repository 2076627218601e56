"""The facts of the host that runs the tests, whatever it is."""

import socket
import subprocess
import sys

import torch

from paceline.hardware import host
from paceline.hardware.cores import cores


def test_the_facts_are_those_of_this_host():
    facts = host.facts({"A": "b"}, accelerators=True)
    assert (facts.host, facts.cores, facts.environment["A"]) == (socket.gethostname(), cores(), "b")
    assert [card.device for card in facts.cards] == [f"cuda:{i}" for i in range(torch.cuda.device_count())]
    assert (facts.build is None) == (torch.version.cuda is None and torch.version.hip is None)


def test_a_cpu_always_has_an_ability():
    assert host.ability("cpu").name == "cpu"
    assert not host.ability("cpu").float16


def test_facts_without_accelerators_need_no_torch():
    program = "import sys; sys.modules['torch'] = None; from paceline.hardware import host; "
    program += "print(host.facts({}, accelerators=False).cards)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.stdout.strip() == "()", done.stderr
