"""Events of a step are distinguished by the micro-batch that they feed."""

from __future__ import annotations

from mothtrap.core.snapshots import (
    BatchHanded,
    ForwardCalled,
    LossCalled,
    RecordedEvent,
    RecordedStep,
    ReferenceDigests,
)
from mothtrap.snapshot.microbatches import MicroBatches


def batch(site: str = "t.py:5") -> RecordedEvent:
    return BatchHanded(loader=0, site=site, value=None)


def forward(site: str = "t.py:6", *, trains: bool = True) -> RecordedEvent:
    return ForwardCalled(root="Net", site=site, args=None, kwargs=None, trains=trains)


def loss() -> RecordedEvent:
    return LossCalled(site="t.py:7", function="mse_loss", args=None)


def found(*events: RecordedEvent, backwards: int = 0) -> list[int | None]:
    names = ("t.py:8", *(f"t.py:8#{number}" for number in range(2, backwards + 1)))
    truth = ReferenceDigests(losses=dict.fromkeys(names[:backwards], "a")) if backwards else None
    micro = MicroBatches(RecordedStep(step=1, events=events), truth)
    return [micro.of(event) for event in events]


def test_a_batch_and_what_is_done_with_it_is_one() -> None:
    each = (batch(), forward(), loss())
    other = (batch(), forward(), loss())
    assert found(*each, *other) == [0, 0, 0, 1, 1, 1]


def test_batches_may_be_loaded_before_the_first_is_used() -> None:
    assert found(batch(), batch(), forward(), loss(), forward(), loss()) == [0, 1, 0, 0, 1, 1]


def test_a_model_may_be_called_several_times_with_one_batch() -> None:
    calls = (forward(), forward(), forward("t.py:9"))
    assert found(batch(), *calls, batch(), *(forward(), forward(), forward("t.py:9"))) == [
        *(0, 0, 0, 0),
        *(1, 1, 1, 1),
    ]


def test_without_a_loader_the_backwards_are_counted() -> None:
    assert found(forward(), forward(), backwards=2) == [0, 1]
    assert found(forward(), forward(), backwards=1) == [0, 0]
    assert found(forward(), forward()) == [0, 0]


def test_what_does_not_come_out_even_is_one() -> None:
    assert found(batch(), batch(), forward()) == [0, 0, 0]  # one was skipped


def test_what_happens_once_feeds_any() -> None:
    teacher, once = forward("t.py:4", trains=False), loss()
    assert found(batch(), teacher, forward(), batch(), forward(), once) == [0, None, 0, 1, 1, None]
