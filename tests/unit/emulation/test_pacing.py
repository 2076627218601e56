"""Rest ends when a device of that speed would be done, and nothing else is slowed. Clocks are moved by hand."""

import pytest

from paceline.emulation.pacing import Clocks, Pacer
from paceline.schema.profile import Pace


class Thread:
    """A thread with two clocks, and an account of its rests."""

    def __init__(self) -> None:
        self.now, self.worked = 1000.0, 100.0
        self.rests: list[float] = []

    def work(self, seconds: float, delayed: float = 0.0) -> None:
        """Compute; ``delayed`` on top while another process has the core."""
        self.worked += seconds
        self.now += seconds + delayed

    def wait(self, seconds: float) -> None:
        self.now += seconds

    def rest(self, seconds: float) -> None:
        self.rests.append(seconds)
        self.now += seconds

    def pacer(self, speed: float | None, pace: Pace | None = None) -> Pacer:
        return Pacer(speed, pace, Clocks(lambda: self.now, lambda: self.worked, self.rest))


@pytest.fixture
def thread() -> Thread:
    return Thread()


@pytest.mark.parametrize("speed", [0.25, 0.5, 0.18, 1.0])
def test_two_seconds_of_work_take_two_over_speed(thread: Thread, speed: float) -> None:
    pacer, start = thread.pacer(speed), thread.now
    pacer.begin(8)
    thread.work(2.0)
    pacer.settle()
    assert thread.now - start == pytest.approx(2.0 / speed)


def test_a_device_that_is_not_slowed_never_rests(thread: Thread) -> None:
    pacer = thread.pacer(None)
    pacer.begin(8)
    thread.work(5.0)
    pacer.settle()
    assert thread.rests == []


def test_what_was_done_before_begin_is_not_paced(thread: Thread) -> None:
    pacer = thread.pacer(0.5)
    thread.work(50.0)
    pacer.begin(8)
    thread.work(1.0)
    pacer.settle()
    assert thread.rests == [1.0]


def test_what_is_done_after_the_end_is_not_paced(thread: Thread) -> None:
    pacer = thread.pacer(0.5)
    pacer.begin(8)
    thread.work(1.0)
    pacer.end()
    thread.work(50.0)
    pacer.settle()
    assert thread.rests == [1.0]


def test_many_short_rests_are_as_long_as_one(thread: Thread) -> None:
    pacer, start = thread.pacer(0.25), thread.now
    pacer.begin(8)
    for _ in range(8):
        thread.work(0.125)
        pacer.settle()
    pacer.end()
    assert len(thread.rests) == 8
    assert thread.now - start == pytest.approx(1.0 / 0.25)


def test_a_delay_by_another_process_comes_out_of_the_rest(thread: Thread) -> None:
    pacer = thread.pacer(0.5)
    pacer.begin(8)
    thread.work(1.0, delayed=0.4)
    pacer.settle()
    assert thread.rests == pytest.approx([0.6])


def test_a_delay_longer_than_the_rest_leaves_none(thread: Thread) -> None:
    pacer = thread.pacer(0.5)
    pacer.begin(8)
    thread.work(1.0, delayed=3.0)
    pacer.settle()
    assert thread.rests == []


def test_waiting_for_peers_is_neither_slowed_nor_taken_for_rest(thread: Thread) -> None:
    pacer, start = thread.pacer(0.5), thread.now
    pacer.begin(8)
    thread.work(1.0)
    thread.wait(7.0)
    pacer.left_out(7.0, 0.0)
    pacer.settle()
    assert thread.now - start == pytest.approx(2.0 + 7.0)


def test_what_is_worked_to_send_is_not_slowed(thread: Thread) -> None:
    pacer, start = thread.pacer(0.1), thread.now
    pacer.begin(8)
    thread.work(1.0)
    before = pacer.worked()
    thread.work(0.5, delayed=0.2)
    pacer.left_out(0.7, pacer.worked() - before)
    pacer.settle()
    assert thread.now - start == pytest.approx(10.0 + 0.7)


def test_settling_twice_rests_once(thread: Thread) -> None:
    pacer = thread.pacer(0.5)
    pacer.begin(8)
    thread.work(1.0)
    pacer.settle()
    pacer.settle()
    assert thread.rests == [1.0]


def test_the_real_clocks_are_the_default() -> None:
    rests: list[float] = []
    pacer = Pacer(0.001, clocks=Clocks(rest=rests.append))
    pacer.begin(8)
    sum(range(200_000))
    pacer.settle()
    assert len(rests) == 1


def test_a_device_of_known_times_takes_them_however_fast_the_host_is(thread: Thread) -> None:
    pacer = thread.pacer(None, Pace(fixed_seconds=1.0, sample_seconds=0.5))
    for worked, delayed in ((2.0, 0.0), (3.0, 0.0), (1.0, 1.5), (4.9, 0.0)):
        start = thread.now
        pacer.begin(8)
        thread.work(worked, delayed)
        pacer.end()
        assert thread.now - start == pytest.approx(5.0)
    start = thread.now
    pacer.begin(0)
    thread.work(0.5)
    pacer.end()
    assert thread.now - start == pytest.approx(0.5)


def test_places_within_a_micro_batch_are_reached_after_their_usual_share_of_known_times(thread: Thread) -> None:
    pacer = thread.pacer(0.5, Pace(sample_seconds=1.0))
    for update, (forward, step) in enumerate([(1.0, 3.0), (1.0, 3.0), (1.5, 1.0), (0.5, 4.0)]):
        start = thread.now
        pacer.begin(8)
        thread.work(forward)
        pacer.settle()
        if not update:  # what there is to do it knows when one is done
            assert thread.now - start == 1.0
        else:  # one that is unlike the others tells little
            assert thread.now - start == pytest.approx(2.0, rel=0.1)
        pacer.left_out(10.0, 0.0)
        thread.wait(10.0)
        thread.work(step)
        pacer.end()
        assert thread.now - start == pytest.approx(18.0)


def test_another_way_through_the_model_takes_known_times_too(thread: Thread) -> None:
    pacer = thread.pacer(None, Pace(sample_seconds=1.0))
    for layers in (2, 4, 1, 4, 0, 3):
        start = thread.now
        pacer.begin(8)
        for _ in range(layers):
            thread.work(0.5)
            pacer.settle()
        thread.work(3.0)
        pacer.end()
        assert thread.now - start == pytest.approx(8.0)


def test_work_that_is_slower_than_known_is_not_slowed_further(thread: Thread) -> None:
    pacer = thread.pacer(None, Pace(sample_seconds=0.1))
    pacer.begin(8)
    thread.work(2.0)
    pacer.end()
    assert thread.rests == []
