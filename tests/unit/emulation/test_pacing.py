"""Pacing: the rest is the time worked, times 1/speed - 1, and nothing else is slowed. Clocks are moved by hand."""

import threading
import time

import pytest

from paceline.emulation.pacing import Pacer


class Thread:
    """A thread whose CPU clock moves when it works, and that keeps account of its rests."""

    def __init__(self) -> None:
        self.worked = 100.0
        self.rests: list[float] = []

    def work(self, seconds: float) -> None:
        self.worked += seconds

    def pacer(self, speed: float | None) -> Pacer:
        return Pacer(speed, cpu_clock=lambda: self.worked, rest=self.rests.append)


@pytest.mark.parametrize(("speed", "rest"), [(0.25, 6.0), (0.5, 2.0), (0.18, 2.0 / 0.18 - 2.0)])
def test_two_seconds_of_work_take_two_over_speed(speed, rest):
    thread = Thread()
    pacer = thread.pacer(speed)
    pacer.begin()
    thread.work(2.0)
    pacer.settle()
    assert thread.rests == pytest.approx([rest])


@pytest.mark.parametrize("speed", [None, 1.0])
def test_a_device_that_is_not_slowed_never_rests(speed):
    thread = Thread()
    pacer = thread.pacer(speed)
    thread.work(5.0)
    pacer.settle()
    assert thread.rests == []


def test_what_was_done_before_begin_is_not_paced():
    thread = Thread()
    pacer = thread.pacer(0.5)
    thread.work(50.0)
    pacer.begin()
    thread.work(1.0)
    pacer.settle()
    assert thread.rests == [1.0]


def test_work_is_paced_once_however_often_it_is_settled():
    thread = Thread()
    pacer = thread.pacer(0.5)
    pacer.begin()
    for work in (1.0, 0.0, 3.0):
        thread.work(work)
        pacer.settle()
    assert thread.rests == [1.0, 3.0]


def test_work_done_while_resting_is_not_paced_again():
    thread = Thread()
    rests = []

    def rest(seconds: float) -> None:
        rests.append(seconds)
        thread.work(0.25)  # going to sleep and waking up costs CPU time too

    pacer = Pacer(0.5, cpu_clock=lambda: thread.worked, rest=rest)
    pacer.begin()
    thread.work(1.0)
    pacer.settle()
    pacer.settle()
    assert rests == [1.0]


def test_the_work_of_other_threads_and_waiting_for_them_is_not_paced():
    rests = []
    pacer = Pacer(0.5, rest=rests.append)

    def burn() -> None:
        until = time.thread_time() + 0.05
        while time.thread_time() < until:
            pass

    other = threading.Thread(target=burn)
    pacer.begin()
    other.start()
    other.join()
    pacer.settle()
    assert sum(rests) < 0.05
