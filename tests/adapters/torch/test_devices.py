"""A whole training on a device: nothing waits for it, and the same values are recorded."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
import torch
from tests.adapters.torch.watched import EVERYTHING, Seen, classifier, watched, whole
from tests.statistics.torch.copy_stream import SlowCopyStream, host_memory
from torch import nn

from mothtrap.adapters.torch.job import devices
from mothtrap.capture.pending import completed
from mothtrap.core.config import Config
from mothtrap.core.facts.nonfinite import NonfiniteModule
from mothtrap.statistics.torch.accelerator import Accelerator

NOTHING_KEPT = Config(snapshots=0)
"""Without snapshots, nothing about a step has to be known before the step."""


def train(
    steps: int = 4, *, spoil: int = -1, between: Callable[[], None] = lambda: None
) -> torch.Tensor:
    """Run a small training with clipping; return its weights."""
    torch.manual_seed(0)
    model = classifier()
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.1)
    loss_of = nn.CrossEntropyLoss()
    for step in range(steps):
        inputs = torch.randn(5, 6)
        if step == spoil:
            model[0].weight.data[0, 0] = torch.nan
        loss_of(model(inputs), torch.arange(5) % 3).backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        between()
    return torch.cat([p.detach().reshape(-1) for p in model.parameters()])


def put_on_device(seen: Seen, copy_stream: SlowCopyStream) -> None:
    """Present the tensors of the CPU as tensors of a device."""
    device = Accelerator("cpu", lambda _: copy_stream, host_memory, lambda: False, fused=False)
    seen.tracer.recorder.captures.rows.device = device


@pytest.fixture
def copy_stream() -> SlowCopyStream:
    copy_stream = SlowCopyStream(torch.device("cpu"))
    copy_stream.numbers_at_once = True
    return copy_stream


def test_a_training_goes_on_while_nothing_arrives_and_the_same_is_seen(
    copy_stream: SlowCopyStream,
) -> None:
    with watched(capture=EVERYTHING, config=NOTHING_KEPT) as known:
        weights = train()
    with watched(capture=EVERYTHING, config=NOTHING_KEPT) as seen:
        put_on_device(seen, copy_stream)
        again = train()
        assert copy_stream.waiting
        assert all(record.pending is not None for record in seen.steps())
    copy_stream.let_go()
    seen.records = [completed(record) for record in seen.records]
    assert torch.equal(weights, again)
    assert [r.tensor_T.tolist() for r in seen.records] == [
        r.tensor_T.tolist() for r in known.records
    ]
    for record, wanted in zip(seen.records, known.records, strict=True):
        there = ~np.isnan(record.summary_TF)
        np.testing.assert_allclose(
            record.summary_TF[there], wanted.summary_TF[there], rtol=1e-5, atol=1e-7
        )
        assert there.any()
    for name in ("loss", "gradient_norm", "lr"):
        assert seen.scalars(name) == pytest.approx(known.scalars(name))
        assert len(seen.scalars(name)) == 4


def test_a_step_is_sent_once_beside_its_loss_and_norm(copy_stream: SlowCopyStream) -> None:
    sent: list[int] = []
    with watched(capture=EVERYTHING, config=NOTHING_KEPT) as seen:
        put_on_device(seen, copy_stream)
        train(between=lambda: sent.append(copy_stream.sent))
    copy_stream.let_go()
    assert set(np.diff(sent)) == {3}


def test_copies_are_of_the_values_before_the_step(copy_stream: SlowCopyStream) -> None:
    capture = whole("weight", "gradient", "optimizer_state")
    with watched(capture=capture, config=NOTHING_KEPT) as known:
        train()
    with watched(capture=capture, config=NOTHING_KEPT) as seen:
        put_on_device(seen, copy_stream)
        train()
    copy_stream.let_go()
    seen.records = [completed(record) for record in seen.records]
    assert seen.kept() == known.kept()
    for identity in known.kept():
        for (step, values), (other, wanted) in zip(
            seen.raw(identity), known.raw(identity), strict=True
        ):
            assert step == other
            assert torch.equal(values, wanted)


def test_where_the_state_before_a_bad_step_is_to_be_kept_it_is_known_before(
    copy_stream: SlowCopyStream,
) -> None:
    copy_stream.at_once = True
    with watched(config=Config()) as seen:
        put_on_device(seen, copy_stream)
        train(spoil=2)
    assert [o.step for o in seen.observed(NonfiniteModule)] == [2]


def test_without_snapshots_no_one_waits_and_the_rows_tell(copy_stream: SlowCopyStream) -> None:
    with watched(config=NOTHING_KEPT) as seen:
        put_on_device(seen, copy_stream)
        train(spoil=2)
    copy_stream.let_go()
    seen.records = [completed(replace(record)) for record in seen.records]
    assert max(seen.rows("gradient:0.weight", "nan").values()) > 0


def test_a_device_that_fails_does_not_stop_the_training(copy_stream: SlowCopyStream) -> None:
    def fail() -> None:
        copy_stream.failing = "device-side assert triggered"

    with watched(capture=EVERYTHING, config=NOTHING_KEPT, may_fail=True) as seen:
        put_on_device(seen, copy_stream)
        weights = train(between=fail)
        seen.tracer.recorder.emit_facts()
    assert torch.equal(weights, train())
    assert all(completed(record).pending is None for record in seen.records)


def test_devices_are_read_without_waiting_from_when_the_process_uses_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with watched() as seen:
        train()
        rows = seen.tracer.recorder.captures.rows
        assert rows.device is None
        with monkeypatch.context() as begun:
            begun.setattr(devices, "are_in_use", lambda: True)
            devices.use_devices(seen.tracer.job)
        assert rows.device is not None
        rows.device = None


@pytest.mark.skipif(torch.cuda.is_available(), reason="of machines without a device")
def test_a_build_for_cuda_without_a_device_is_watched(monkeypatch: pytest.MonkeyPatch) -> None:
    """In such a build, reading the current stream raises; most laptops have one."""

    def fail() -> bool:
        raise RuntimeError("CUDA driver version is insufficient for CUDA runtime version")

    monkeypatch.setattr(torch.version, "cuda", "13.0")
    monkeypatch.setattr(torch.cuda, "is_current_stream_capturing", fail)
    with watched(capture=EVERYTHING) as seen:
        train()
    assert len(seen.records) >= 4
