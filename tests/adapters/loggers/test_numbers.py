"""Numbers logged to other loggers are recorded for the step, and the loggers still get theirs."""

from __future__ import annotations

import json
import struct
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest

wandb = pytest.importorskip("wandb")
mlflow = pytest.importorskip("mlflow")

import torch  # noqa: E402
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator  # noqa: E402
from torch import nn  # noqa: E402
from torch.utils.tensorboard import SummaryWriter  # noqa: E402

from mothtrap.adapters.mlflow import ADAPTER as MLFLOW  # noqa: E402
from mothtrap.adapters.tensorboard import ADAPTER as TENSORBOARD  # noqa: E402
from mothtrap.adapters.torch import ADAPTER as TORCH  # noqa: E402
from mothtrap.adapters.wandb import ADAPTER as WANDB  # noqa: E402
from mothtrap.core.facts.workers import WorkerEnded  # noqa: E402
from mothtrap.testing.adapters import Process  # noqa: E402
from mothtrap.tracing.handle import AdapterSpec  # noqa: E402

STEPS = 6
Log = Callable[[int, torch.Tensor], None]
History = list[tuple[int, float]]


def train(log: Log) -> None:
    """Train; log the loss of each step after it."""
    torch.manual_seed(0)
    model = nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-2)
    for step in range(STEPS):
        loss = model(torch.randn(8, 4)).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        log(step, loss)


def by_tensorboard(folder: Path) -> History:
    writer = SummaryWriter(str(folder))

    def log(step: int, loss: torch.Tensor) -> None:
        writer.add_scalar("mine/loss", loss, step)
        writer.add_scalars("mine/both", {"a": 1.0 + step, "b": 2.0}, step)

    train(log)
    writer.close()
    read = EventAccumulator(str(folder))
    read.Reload()
    return [(event.step, event.value) for event in read.Scalars("mine/loss")]


def by_wandb(folder: Path) -> History:
    run = wandb.init(mode="offline", dir=str(folder), settings=wandb.Settings(silent=True))
    train(lambda _, loss: wandb.log({"mine": {"loss": loss}, "text": "left out"}))
    run.finish()
    wandb.teardown()  # the process that writes has ended
    (written,) = folder.rglob("*.wandb")
    return wandb_history(written)


def by_mlflow(folder: Path) -> History:
    mlflow.set_tracking_uri(folder.as_uri())

    def log(step: int, loss: torch.Tensor) -> None:
        mlflow.log_metrics({"mine/loss": loss.item()}, step=step)
        mlflow.log_metric("mine/twice", 2.0 * step, step=step)

    with mlflow.start_run() as run:
        train(log)
    client = mlflow.MlflowClient()
    found = client.get_metric_history(run.info.run_id, "mine/loss")
    return [(metric.step, metric.value) for metric in found]


def wandb_history(path: Path) -> History:
    """Return the numbers that Weights & Biases has written."""
    from wandb.proto import wandb_internal_pb2

    found: History = []
    for data in written_records(path.read_bytes()):
        record = wandb_internal_pb2.Record()
        record.ParseFromString(data)
        if record.WhichOneof("record_type") == "history":
            items = {i.key or "/".join(i.nested_key): i.value_json for i in record.history.item}
            loss = items["mine/loss"] if "mine/loss" in items else json.loads(items["mine"])["loss"]
            found.append((int(items["_step"]), float(loss)))
    return found


def written_records(data: bytes) -> Iterator[bytes]:
    """Yield the records of a file in LevelDB's log format, after a header of 7 bytes."""
    at, begun, header, block = 7, b"", 7, 32768
    while at + header <= len(data):
        if block - at % block < header:
            at += block - at % block
            continue
        length, kind = struct.unpack("<HB", data[at + 4 : at + header])
        begun += data[at + header : at + header + length]
        at += header + length
        if kind in (1, 4):  # a whole record, or the last piece of one
            yield begun
            begun = b""


LOGGERS: dict[str, tuple[Any, AdapterSpec]] = {
    "tensorboard": (by_tensorboard, TENSORBOARD),
    "wandb": (by_wandb, WANDB),
    "mlflow": (by_mlflow, MLFLOW),
}


@contextmanager
def watched(*adapters: Any) -> Iterator[Process]:
    process = Process("torch")
    with ExitStack() as stack:
        for adapter in adapters:
            stack.enter_context(process.watched(adapter))
        yield process
    process.recorder.finish(WorkerEnded(step=STEPS, steps=STEPS, own_s=0.0, wall_s=1.0))


def numbers(process: Process, name: str) -> dict[int, float]:
    return {r.key.step: s.value for r in process.records for s in r.scalars if s.name == name}


@pytest.mark.smoke
@pytest.mark.parametrize("name", LOGGERS)
def test_numbers_are_captured_and_the_history_stays(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    log, adapter = LOGGERS[name]
    plain = log(tmp_path / "without")
    with watched(TORCH, adapter) as process:
        seen = log(tmp_path / "with")
    assert seen == plain
    assert [step for step, _ in plain] == list(range(STEPS))
    captured = numbers(process, "mine/loss")
    assert captured == pytest.approx(dict(plain))


def test_groups_of_numbers_have_names_of_their_own(tmp_path: Path) -> None:
    with watched(TORCH, TENSORBOARD) as process:
        by_tensorboard(tmp_path)
    assert numbers(process, "mine/both/a") == {step: 1.0 + step for step in range(STEPS)}


def test_a_number_that_two_loggers_get_is_one(tmp_path: Path) -> None:
    writer = SummaryWriter(str(tmp_path))
    with watched(TORCH, TENSORBOARD) as process:

        def log(step: int, loss: torch.Tensor) -> None:
            process.job.numbers.add({"same": loss})
            writer.add_scalar("same", loss, step)

        train(log)
    writer.close()
    found = [s for record in process.records for s in record.scalars if s.name == "same"]
    assert len(found) == STEPS


@pytest.mark.parametrize("name", LOGGERS)
def test_all_is_put_back(name: str) -> None:
    kinds: dict[str, Any] = {
        "tensorboard": SummaryWriter,
        "wandb": wandb.sdk.wandb_run.Run,
        "mlflow": mlflow.MlflowClient,
    }
    before = dict(vars(kinds[name]))
    with watched(LOGGERS[name][1]):
        assert dict(vars(kinds[name])) != before
    assert dict(vars(kinds[name])) == before


def test_a_failure_of_ours_does_not_reach_the_logger(tmp_path: Path) -> None:
    plain = by_tensorboard(tmp_path / "without")
    with watched(TORCH, TENSORBOARD) as process:
        process.job.numbers.add = lambda _: 1 / 0  # type: ignore[method-assign, assignment]
        assert by_tensorboard(tmp_path / "with") == plain


def test_a_logger_makes_no_step_be_watched_in_full() -> None:
    with watched(TORCH, TENSORBOARD) as process:
        train(lambda *_: None)
        assert process.recorder.depths.every(5000) == depth_without()


def depth_without() -> int:
    with watched(TORCH) as process:
        train(lambda *_: None)
        return process.recorder.depths.every(5000)
