"""Runs in an object store, many segments and writers, and the exported trace."""

from __future__ import annotations

import json
from pathlib import Path

from tests.peer.trainings import UNJUDGED, parameter, steps_of_worker, trained
from tests.reader.runs import info
from torch import nn

import mothtrap
from mothtrap import Collection, Watch
from mothtrap.exports import export_run
from mothtrap.store import layout
from mothtrap.store.worker_log import WorkerLog


def test_a_run_in_an_object_store_is_read_as_one_on_a_disk(tmp_path: Path, s3_url: str) -> None:
    seen: list[bytes] = []

    def each(step: int, model: nn.Module, dbg: Watch) -> None:
        seen.append(parameter(model, "0.weight").detach().numpy().tobytes())

    chosen = {"weights": Collection(raw=True)}
    settings = {"runs_dir": s3_url, "name": "far", "collections": chosen, **UNJUDGED}
    run = trained(tmp_path, 4, each, **settings)
    assert (run.state, run.steps_of().tolist()) == ("finished", [0, 1, 2, 3])
    assert [run.status(step).complete for step in range(5)] == [True] * 4 + [False]
    assert [array.tobytes() for _, array in run.tensor("weight:0.weight").values()] == seen
    assert mothtrap.open_run("far", s3_url).scalars("loss")[0].steps_S.tolist() == [0, 1, 2, 3]


def test_segments_of_several_writers_make_one_valid_trace(tmp_path: Path) -> None:
    attempt = layout.create_run(tmp_path / "x", info())
    for rank in range(2):
        log = WorkerLog(layout.claim_worker(attempt, rank)[1], roll_bytes=4096)
        for item in steps_of_worker(rank, range(60), of=2, closed=True):
            log.append([item])
        log.close()
        assert len(list(layout.worker_folder(attempt, rank).glob("events-*"))) > 2
    run = mothtrap.open_run(tmp_path / "x")
    assert run.status(59).complete
    export_run(run, "chrome-trace", tmp_path / "trace.json")
    trace = json.loads((tmp_path / "trace.json").read_text())
    slices = [event for event in trace["traceEvents"] if event["ph"] == "X"]
    assert {event["pid"] for event in slices} == {1, 2}
    assert len(slices) == 120
    assert all(event["ts"] >= 0 and event["dur"] >= 0 for event in slices)


def test_times_of_steps_are_a_data_frame_by_step_and_by_time(tmp_path: Path) -> None:
    run = trained(tmp_path, 6, **UNJUDGED)
    frame = run.table("steps").to_pandas()
    assert frame["step"].tolist() == list(range(6))
    assert frame["wall_s"].is_monotonic_increasing
    assert run.range(2, 4).table("steps").to_pandas()["step"].tolist() == [2, 3]
    begin, end = frame["wall_s"].tolist()[2:5:2]
    asked = f"select step from steps where wall_s >= {begin!r} and wall_s < {end!r}"
    assert run.sql(asked).to_pandas()["step"].tolist() == [2, 3]
    scalars = run.table("scalars").to_pandas()
    took_s = scalars[scalars["name"] == "step_s"].set_index("step")["value"]
    assert took_s.index.tolist() == list(range(6))
    assert (took_s > 0).all()
