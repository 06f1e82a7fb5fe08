from __future__ import annotations

import logging
import threading

import pytest

from autotune_policies.engines.live.outbox import Outbox


def test_items_arrive_in_order_and_all() -> None:
    """Everything that was accepted is written, in order, before close returns."""
    written: list[int] = []
    outbox = Outbox("test", written.append, max_cost=10_000)
    for item in range(5_000):
        assert outbox.offer(item)
    outbox.close()
    assert written == list(range(5_000))
    assert outbox.lost == 0


def test_a_stuck_writer_costs_records_and_never_time() -> None:
    """While the writer hangs, offers beyond the bound are dropped and counted at once, and the rest comes later."""
    written: list[int] = []
    may_go_on = threading.Event()

    def write(item: int) -> None:
        may_go_on.wait()
        written.append(item)

    outbox = Outbox("test", write, max_cost=10)
    accepted = [item for item in range(100) if outbox.offer(item, cost=2)]
    assert len(accepted) == 5
    assert outbox.dropped == outbox.take_lost() == 95
    assert outbox.take_lost() == 0
    may_go_on.set()
    outbox.close()
    assert written == accepted
    assert not outbox.offer(1)
    assert outbox.take_lost() == 1


def test_a_failing_writer_is_counted_and_told_once(caplog: pytest.LogCaptureFixture) -> None:
    """Each item that could not be written counts; the same fault is one warning; later items are tried again."""
    written: list[int] = []

    def write(item: int) -> None:
        if item < 3:
            raise OSError("disk full")
        written.append(item)

    with caplog.at_level(logging.WARNING):
        outbox = Outbox("test", write, max_cost=10)
        for item in range(5):
            outbox.offer(item)
        outbox.close()
    assert (outbox.lost, written) == (3, [3, 4])
    assert len(caplog.records) == 1


def test_the_bound_frees_itself_as_items_are_written() -> None:
    """A queue that was full accepts again after its items have gone."""
    seen = threading.Event()
    outbox: Outbox[int] = Outbox("test", lambda item: seen.set() if item == 4 else None, max_cost=5)
    assert all(outbox.offer(item) for item in range(5))
    assert seen.wait(10)
    for _ in range(100):
        if outbox.offer(9):
            break
        threading.Event().wait(0.05)
    else:
        pytest.fail("never accepted again")
    outbox.close()
