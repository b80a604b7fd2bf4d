from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest
import torch
from tests.adapters.torch.watched import batch, classifier, sgd, watched
from torch import nn

from mothtrap.adapters.torch.replaying.restoring import Restoring
from mothtrap.adapters.torch.snapshots import taker as taking_module
from mothtrap.adapters.torch.snapshots.taker import TorchSnapshotTaker
from mothtrap.core.config import Config
from mothtrap.core.snapshot_orders import SnapshotDraft, SnapshotOrder
from mothtrap.core.snapshots import ForwardCalled
from mothtrap.statistics.torch.raw import digest


class Sink:
    def __init__(self, room: bool = True) -> None:
        self.taken: list[SnapshotDraft] = []
        self.why: list[str] = []
        self.room = room
        self.pending = 0
        self.base_steps: tuple[int, ...] = ()

    def has_room(self, spare: int = 0) -> bool:
        return self.room and self.pending + spare < 2

    def put(self, taken: SnapshotDraft) -> None:
        self.taken.append(taken)

    def refused(self, order: SnapshotOrder, step: int, why: str) -> None:
        self.why.append(why)


@contextmanager
def taking(**settings: object) -> Iterator[tuple[TorchSnapshotTaker, Sink]]:
    with watched(config=Config(**settings)) as seen:  # type: ignore[arg-type]
        sink = Sink()
        seen.tracer.snapshots.connect(sink)
        yield seen.tracer.snapshots, sink


class Loop:
    """The plain loop; `weights` holds the digests of the weights before each step."""

    def __init__(self) -> None:
        self.model = nn.Sequential(nn.BatchNorm1d(6), classifier())
        self.optimizer = sgd(self.model)
        self.weights: list[int] = []
        self.means: list[list[float]] = []
        self.losses: list[str] = []
        self.step = 0

    def run(self, steps: int, bad: int = -1) -> None:
        for _ in range(steps):
            x, y = batch()
            if self.step == bad:
                x[0, 0] = torch.nan
            self.optimizer.zero_grad()
            self.weights.append(digest(self.model[1][0].weight))  # type: ignore[index, arg-type]
            self.means.append(self.model[0].running_mean.tolist())  # type: ignore[union-attr, operator]
            loss = nn.functional.cross_entropy(self.model(x), y)
            loss.backward()
            self.losses.append(f"{digest(loss):016x}")
            self.optimizer.step()
            self.step += 1


def digest_of(taken: SnapshotDraft, key: str = "parameter:1.0.weight") -> int:
    assert taken.state is not None
    array = taken.state.arrays[key]
    return digest(torch.from_numpy(array.data.copy()).view(torch.float32).reshape(array.shape))


def test_the_onset_is_kept_with_the_state_from_before_it() -> None:
    with taking() as (_, sink):
        loop = Loop()
        loop.run(8, bad=4)
    (taken,) = sink.taken
    assert taken.order.reason.startswith("unsound step: the loss is NaN")
    assert (taken.step, taken.state_step, taken.note) == (4, 4, "")
    assert digest_of(taken) == loop.weights[4]
    assert taken.state is not None
    mean = taken.state.arrays["buffer:0.running_mean"].data.view("float32")
    assert mean.tolist() == loop.means[4]
    assert [kept.recorded.step for kept in taken.steps] == [4]
    assert any(isinstance(event, ForwardCalled) for event in taken.steps[0].recorded.events)
    assert taken.truth is not None
    assert len(taken.truth.losses) == 1
    assert set(taken.truth.gradients) == {
        *("0.weight", "0.bias", "1.0.weight", "1.0.bias", "1.2.weight", "1.2.bias")
    }


def test_what_was_taken_before_there_was_a_place_for_it_waits() -> None:
    with watched() as seen:
        Loop().run(3, bad=0)
        sink = Sink()
        seen.tracer.snapshots.connect(sink)
    assert [taken.step for taken in sink.taken] == [0]


def test_a_step_that_is_named_and_every_so_many_are_kept() -> None:
    with taking(snapshot_at=(3,), snapshot_every=4) as (_, sink):
        Loop().run(9)
    assert [(t.step, t.order.reason) for t in sink.taken] == [
        *((0, "base"), (3, "step"), (4, "base"), (8, "base"))
    ]


@pytest.mark.parametrize("settings", [{"snapshot_every": 4}, {"snapshot_at": (4,)}])
def test_an_onset_is_not_replaced_by_what_is_due_at_the_same_step(
    settings: dict[str, object],
) -> None:
    with taking(**settings) as (_, sink):
        loop = Loop()
        loop.run(6, bad=4)
    taken = sink.taken[-1]
    assert [t.step for t in sink.taken].count(4) == 1
    assert taken.order.reason.startswith("unsound step: the loss is NaN")
    assert taken.truth is not None
    assert digest_of(taken) == loop.weights[4]


@pytest.mark.parametrize("settings", [{"snapshot_every": 4}, {"snapshot_at": (4,)}])
def test_what_was_due_becomes_an_onset_when_its_step_is_found_to_be_unsound(
    settings: dict[str, object],
) -> None:
    with taking(**settings, on_nonfinite="skip") as (_, sink):
        Loop().run(6, bad=4)
    due, onset = sink.taken[-2:]
    assert (due.step, onset.step, onset.state_step, onset.state) == (4, 4, 4, None)
    assert due.state is not None
    assert onset.order.reason.startswith("unsound step: the loss is NaN")
    assert onset.truth is not None
    assert onset.truth.gradients


def test_a_base_whose_step_is_found_bad_later_becomes_one_that_stays() -> None:
    with taking(snapshot_every=4) as (own, sink):
        loop = Loop()
        loop.run(5)
        sink.base_steps = (0, 4)
        own.order(SnapshotOrder(reason="finding LOS101", step=4))
        loop.run(1)
    taken = sink.taken[-1]
    assert (taken.step, taken.state_step, taken.state) == (4, 4, None)
    assert taken.order.reason == "finding LOS101"


def test_a_request_gets_the_next_step() -> None:
    with taking() as (own, sink):
        loop = Loop()
        loop.run(3)
        assert own.order(SnapshotOrder(reason="request", request="x"))
        loop.run(3)
    (taken,) = sink.taken
    assert (taken.step, taken.order.request) == (3, "x")
    assert digest_of(taken) == loop.weights[3]


def test_a_step_found_bad_later_has_a_later_state_and_says_so() -> None:
    with taking() as (own, sink):
        loop = Loop()
        loop.run(5)
        own.order(SnapshotOrder(reason="finding LOS101", step=2))
        loop.run(2)
    (taken,) = sink.taken
    assert (taken.step, taken.state_step, taken.truth) == (2, 5, None)
    assert [kept.recorded.step for kept in taken.steps] == [2]
    assert "the state is from before step 5" in taken.note
    assert digest_of(taken) == loop.weights[5]


def test_with_a_base_it_is_exact() -> None:
    with taking(snapshot_every=4) as (own, sink):
        loop = Loop()
        loop.run(6)
        sink.base_steps = (0, 4)  # as when they have been written
        own.order(SnapshotOrder(reason="finding LOS101", step=5))
        loop.run(1)
    taken = sink.taken[-1]
    assert (taken.step, taken.state_step, taken.state, taken.note) == (5, 4, None, "")
    assert [kept.recorded.step for kept in taken.steps] == [4, 5]
    assert taken.truth is not None
    assert list(taken.truth.losses.values()) == [loop.losses[5]]


def test_a_step_that_is_forgotten_gives_the_present_one_and_says_so() -> None:
    with taking() as (own, sink):
        loop = Loop()
        loop.run(300)
        own.order(SnapshotOrder(reason="finding LOS101", step=2))
        loop.run(1)
    (taken,) = sink.taken
    assert (taken.step, taken.state_step) == (300, 300)
    assert "step 2, which is no longer in memory" in taken.order.reason


def test_what_follows_from_an_onset_is_not_kept_again() -> None:
    with taking() as (own, sink):
        loop = Loop()
        loop.run(6, bad=4)
        own.order(SnapshotOrder(reason="finding NUM003", step=5))
        loop.run(3)
    assert [taken.step for taken in sink.taken] == [4]


def test_without_room_orders_wait_and_what_is_due_is_refused() -> None:
    with taking(snapshot_at=(1,)) as (own, sink):
        sink.room = False
        loop = Loop()
        own.order(SnapshotOrder(reason="request", request="x"))
        loop.run(3)
        assert sink.taken == []
        sink.room = True
        loop.run(1)
    assert [taken.step for taken in sink.taken] == [3]
    assert sink.why == ["earlier snapshots are still being written"]


def test_an_onset_without_room_is_refused_and_told() -> None:
    with taking() as (_, sink):
        sink.room = False
        Loop().run(6, bad=3)
    assert sink.taken == []
    assert sink.why == ["earlier snapshots are still being written"]


def test_an_onset_above_the_number_of_those_is_refused_and_told() -> None:
    with taking(snapshots=1, on_nonfinite="skip") as (_, sink):
        loop = Loop()
        for step in (1, 4, 7, 10):
            loop.run(3, bad=step)
    assert [taken.step for taken in sink.taken] == [1, 4]
    (why,) = sink.why
    assert why.startswith("this job already took the maximum of 2 automatic snapshots")


def test_a_base_leaves_room_for_an_onset() -> None:
    with taking(snapshot_every=2) as (_, sink):
        sink.pending = 1
        Loop().run(4, bad=3)
    assert [taken.step for taken in sink.taken] == [3]
    assert sink.why == ["earlier snapshots are still being written"] * 2


def test_an_exception_without_room_is_refused_and_told() -> None:
    with taking() as (own, sink):
        loop = Loop()
        loop.run(2)
        sink.room = False
        loop.model(batch()[0])
        own.ended(RuntimeError("x"))
    assert sink.why == ["earlier snapshots are still being written"]


def test_a_state_that_is_too_large_is_refused() -> None:
    with taking(snapshot_mb=0.0001) as (own, sink):
        own.order(SnapshotOrder(reason="request", request="x"))
        Loop().run(2)
    assert sink.taken == []
    assert sink.why == ["weights and optimizer state are larger than snapshot_mb (0.0001 MB)"]


def test_a_state_for_which_the_machine_has_no_memory_is_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(taking_module, "spare_bytes", lambda: 100.0)
    with taking() as (_, sink):
        Loop().run(3, bad=1)
    assert sink.taken == []
    assert sink.why[0].startswith(
        "weights and optimizer state are larger than the share of the free memory"
    )


def test_orders_that_come_too_late_are_answered() -> None:
    with taking() as (own, sink):
        Loop().run(2)
        own.order(SnapshotOrder(reason="request", request="x"))
    assert sink.why == ["the job ended before the next step"]


@pytest.mark.parametrize("settings", [{"snapshots": 0}, {"ring_mb": 0.0}, {"capture": "off"}])
def test_it_can_be_switched_off(settings: dict[str, object]) -> None:
    with taking(**settings) as (own, sink):
        assert not own.order(SnapshotOrder(reason="request"))
        Loop().run(3, bad=1)
    assert sink.taken == []


def test_a_closure_is_taken_at_its_first_evaluation() -> None:
    with taking() as (own, sink):
        model = classifier()
        optimizer = torch.optim.LBFGS(model.parameters(), max_iter=3)
        before = []

        def closure() -> torch.Tensor:
            optimizer.zero_grad()
            x, y = batch()
            loss = nn.functional.cross_entropy(model(x), y)
            loss.backward()
            return loss

        for step in range(3):
            before.append(digest(model[0].weight))  # type: ignore[arg-type]
            if step == 2:
                own.order(SnapshotOrder(reason="request"))
            optimizer.step(closure)  # type: ignore[arg-type]
    (taken,) = sink.taken
    assert (taken.step, taken.note) == (2, "")
    assert digest_of(taken, "parameter:0.weight") == before[2]
    assert taken.truth is not None
    assert len(taken.truth.losses) == 1


def test_only_the_gradients_of_the_step_are_its_truth() -> None:
    """In a GAN the discriminator has gradients, too, when the generator steps."""
    with taking(snapshot_at=(3,)) as (_, sink):
        first, second = nn.Linear(2, 2), nn.Linear(2, 1)
        optimizers = [torch.optim.SGD(m.parameters(), lr=0.1) for m in (first, second)]
        for step in range(4):
            second(first(torch.ones(3, 2))).mean().backward()
            optimizers[step % 2].step()
    (taken,) = sink.taken
    assert taken.truth is not None
    assert {name.partition(".")[0] for name in taken.truth.gradients} == {"Linear#1"}


def test_the_gradients_of_the_step_are_its_truth_where_a_scaler_leaves_it_out() -> None:
    with taking() as (_, sink):
        first, second = nn.Linear(2, 2), nn.Linear(2, 1)
        optimizers = [torch.optim.SGD(m.parameters(), lr=0.1) for m in (first, second)]
        scaler = torch.amp.GradScaler("cpu", init_scale=4.0)
        for step in range(4):
            x = torch.ones(3, 2) * (torch.nan if step == 3 else 1.0)
            scaler.scale(second(first(x)).mean()).backward()
            scaler.step(optimizers[step % 2])
            scaler.update()
    (taken,) = sink.taken
    assert taken.step == 3
    assert taken.truth is not None
    assert {name.partition(".")[0] for name in taken.truth.gradients} == {"Linear#1"}


def test_a_step_that_is_named_is_kept_where_a_scaler_leaves_it_out() -> None:
    with taking(snapshot_at=(1,)) as (_, sink):
        model = nn.Linear(2, 1)
        optimizer = sgd(model)
        scaler = torch.amp.GradScaler("cpu", init_scale=4.0)
        for step in range(3):
            scaler.scale(model(torch.ones(3, 2)).mean()).backward()
            if step == 1:
                model.weight.grad[0, 0] = torch.inf  # type: ignore[index]
            scaler.step(optimizer)
            scaler.update()
            optimizer.zero_grad()
    assert [(taken.step, taken.order.reason) for taken in sink.taken] == [(1, "step")]


def test_an_uncaught_exception_keeps_its_step() -> None:
    with taking() as (own, sink):
        loop = Loop()
        loop.run(2)
        x, _ = batch()
        with pytest.raises(RuntimeError) as caught:
            loop.model(x[:, :5])
        own.ended(caught.value)
        own.order(
            SnapshotOrder(reason="finding DAT505", step=2)
        )  # it is kept, so nothing more is requested
    (taken,) = sink.taken
    assert (taken.step, taken.order.reason, sink.why) == (2, "exception", [])
    assert taken.truth is not None
    assert taken.truth.exception == f"RuntimeError: {caught.value}"
    assert digest_of(taken) == digest(loop.model[1][0].weight)  # type: ignore[index, arg-type]


def test_a_snapshot_restores() -> None:
    with watched() as seen:
        sink = Sink()
        seen.tracer.snapshots.connect(sink)
        loop = Loop()
        loop.run(4, bad=2)
        state = sink.taken[0].state
        assert state is not None
        Restoring(state.make()[0], state.arrays, seen.tracer.known).apply()
        assert digest(loop.model[1][0].weight) == loop.weights[2]  # type: ignore[index, arg-type]


def test_what_rules_find_at_the_end_is_taken_then() -> None:
    with taking(snapshot_every=4) as (own, sink):
        Loop().run(7)
        sink.base_steps = (0, 4)
    own.order(SnapshotOrder(reason="finding LOS101", step=5))
    own.order(SnapshotOrder(reason="finding LOS102", step=300))
    assert (sink.taken[-1].step, sink.taken[-1].state_step) == (5, 4)
    assert sink.why == ["the job ended before the next step"]
