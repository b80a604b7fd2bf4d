"""Requests of users are carried out between two steps."""

from __future__ import annotations

from tests.capture.recording import Job
from tests.capture.test_plan import kept, request, train

from mothtrap.core.collections import Collection
from mothtrap.core.facts.captures import CaptureChanged


def test_a_request_for_a_later_step_counts_from_that_on() -> None:
    """Several workers, which get the request at different steps, then capture the same ones."""
    mine = {"mine": Collection(tensors=("gradients",), raw=True)}
    added = request(add=mine, for_steps=2, from_step=4)
    for asked_at in (1, 3):
        job = Job(())
        number = job.gradient()
        train(job, [number], range(asked_at))
        job.recorder.changes.ask(added)
        records = train(job, [number], range(asked_at, 8))
        assert [r.key.step for r in records if kept(r)] == [4, 5]
        answers = [o for r in records for o in r.observations if isinstance(o, CaptureChanged)]
        assert [(a.request, a.from_step) for a in answers] == [("1", 4), ("", 6)]
