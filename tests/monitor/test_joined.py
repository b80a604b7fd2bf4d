from __future__ import annotations

from tests.store.records import record

from mothtrap.core.facts.replicas import ReplicaDigests
from mothtrap.monitor.joined import JoinedWindows


def test_the_lowest_worker_has_the_others_as_peers() -> None:
    joined = JoinedWindows()
    for worker, steps in ((2, 3), (0, 2), (1, 1)):
        for step in range(steps):
            seen = ReplicaDigests(step=step, digests={"fc": str(worker)})
            joined.add(worker, record(step, observations=(seen,)))
    window = joined.window(9.0)
    assert joined.workers == (0, 1, 2)
    assert (window.worker, window.total_steps) == (0, 2)
    assert [(peer.worker, peer.total_steps) for peer in window.peers] == [(1, 1), (2, 3)]
    assert [len(list(part.seen(ReplicaDigests))) for part in (window, *window.peers)] == [2, 1, 3]


def test_before_any_record_the_window_is_empty() -> None:
    window = JoinedWindows().window(0.0)
    assert (window.total_steps, window.peers) == (0, ())
