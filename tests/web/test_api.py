"""The API over stored runs."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode

import numpy as np
import pytest
from tests.web.conftest import Site, until
from tests.web.made_runs import HOSTILE, SCRIPT, MadeRun, make_faulty

from mothtrap.core.labels import LABEL_KINDS
from mothtrap.core.replays import StoredReplay
from mothtrap.store.layout import write_replay

LOSS = "train/loss:train.py:4 SGD"


def series(site: Site, run: str, *names: str, **asked: object) -> tuple[dict[str, Any], list[Any]]:
    """Request curves, and decode their bytes as the page does."""
    query = urlencode([("run", run), *(("name", name) for name in names), *asked.items()])
    status, _, body = site.ask(f"/api/series?{query}")
    assert status == 200, body
    return unpacked(body)


def unpacked(body: bytes) -> tuple[dict[str, Any], list[Any]]:
    """The head and the curves of bytes."""
    length = int.from_bytes(body[:4], "little")
    head, at, curves = json.loads(body[4 : 4 + length]), 4 + length, []
    for about in head["curves"]:
        curve = dict(about)
        for name, kind in (
            *(("x", "<f8"), ("step", "<f8"), ("min", "<f4"), ("max", "<f4"), ("last", "<f4")),
            ("bad", "u1"),
        ):
            curve[name] = np.frombuffer(body, kind, about["count"], at)
            at += curve[name].nbytes
        at += -at % 8
        curves.append(curve)
    assert at == len(body)
    return head, curves


def test_runs_are_listed_with_state_and_verdict(site: Site) -> None:
    page = site.json("/api/runs")["page"]
    while page["pending"]:
        page = site.json("/api/runs")["page"]
    rows = {row["name"]: row for row in page["rows"]}
    assert next(iter(rows)) == "live"
    assert {name: row["state"] for name, row in rows.items()} == {
        "live": "running",
        "a&b=c%2F#'\"": "finished",
        "wide": "finished",
        "empty": "crashed",
        "crashed": "crashed",
        "nan": "finished",
        "healthy": "finished",
        "deep": "finished",
        "values": "finished",
        "ranks": "finished",
    }
    assert rows["nan"]["severity"] == "error"
    assert rows["nan"]["verdict"].startswith("Exploding gradient in blocks.1.weight")
    assert rows["nan"]["parameters"] == {"lr": "0.1"}
    assert rows["healthy"]["severity"] == ""


def test_a_filter_takes_words_of_name_verdict_and_state(site: Site) -> None:
    while site.json("/api/runs")["page"]["pending"]:
        pass
    names = [row["name"] for row in site.json("/api/runs?query=exploding+finished")["page"]["rows"]]
    assert "nan" in names
    assert "healthy" not in names


def test_a_run_says_what_is_known_of_it(site: Site) -> None:
    about = site.json("/api/run?run=nan")
    assert about["steps"] == 60
    assert about["severity"] == "error"
    assert about["command"] == "python train.py --lr 0.1"
    assert about["losses"] == [LOSS]
    marks = ["ack", "mute", "unmute", *LABEL_KINDS]
    assert about["controls"] == [*marks, "delete"]
    assert site.json("/api/run?run=live")["controls"] == [*marks, "capture", "snapshot", "stop"]


def test_findings_are_stories_with_their_curves(site: Site) -> None:
    found = site.json("/api/findings?run=nan")
    (story,) = found["stories"]
    root = found["findings"][story["root"]]
    assert root["finding"]["code"] == "GRD101"
    assert root["chart"]["curves"] == [
        "train/gradient.l2/*",
        "train/gradient.l2/blocks.1.weight",
        "train/gradient.l2/blocks.0.weight",
    ]
    (effect,) = story["effects"]
    assert found["findings"][effect]["chart"]["curves"] == [LOSS]
    assert [row["layer"] for row in found["worst"]] == ["blocks.1.weight", "blocks.0.weight"]


def test_a_finding_has_its_line_where_the_file_is_as_it_was(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text(SCRIPT)
    os.utime(script, (1.0, 1.0))  # before the run
    make_faulty(tmp_path / "noted")
    served = Site(tmp_path)
    served.start()
    try:
        before = served.json("/api/findings?run=noted")
        script.write_text(SCRIPT.replace("log", "exp"))
        os.utime(script, (1.0, 1.0))
        changed = tmp_path / "copy"
        shutil.copytree(tmp_path / "noted", changed)
        after = served.json("/api/findings?run=copy")
    finally:
        served.stop()
    root = before["stories"][0]["root"]
    assert before["findings"][root]["line"] == SCRIPT.splitlines()[3]
    assert after["findings"][root]["line"] == ""


def test_a_curve_comes_whole_with_what_is_not_finite(site: Site) -> None:
    head, (loss, norm) = series(site, "nan", LOSS, "train/gradient.l2/blocks.1.weight")
    assert head["end"] == 60
    np.testing.assert_array_equal(loss["step"], np.arange(60))
    np.testing.assert_array_equal(loss["bad"], [0] * 45 + [1] * 15)
    assert np.isnan(loss["last"][45:]).all()
    assert loss["location"] == "train.py:4"
    assert norm["max"][44] == np.float32(1e30)
    np.testing.assert_array_equal(norm["bad"], loss["bad"])


def test_a_zoom_cuts_before_it_joins(site: Site) -> None:
    _, (part,) = series(site, "nan", LOSS, **{"from": 40, "to": 48, "px": 8})
    np.testing.assert_array_equal(part["step"], np.arange(40, 48))
    assert part["width"] == 1
    _, (whole,) = series(site, "nan", LOSS, px=8)
    assert whole["width"] == 8
    np.testing.assert_array_equal(whole["step"], np.arange(0, 60, 8))
    assert whole["max"][5] == np.float32(1e9)


def test_a_zoom_of_tensors_reads_single_steps(tmp_path: Path) -> None:
    run = MadeRun(tmp_path / "long")
    run.train([1.0] * 1200, [float(step) for step in range(1200)])
    run.end()
    served = Site(tmp_path)
    served.start()
    names = [f"train/gradient.l2/blocks.{number}.weight" for number in (0, 2)]
    try:
        _, (whole, _) = series(served, "long", *names)
        _, zooms = series(served, "long", *names, **{"from": 1000, "to": 1010})
    finally:
        served.stop()
    assert whole["width"] == 4
    np.testing.assert_array_equal(whole["last"], np.arange(3, 1200, 4))
    for zoom in zooms:
        assert zoom["width"] == 1
        np.testing.assert_array_equal(zoom["last"], np.arange(1000, 1010))


def test_the_axis_of_time_counts_seconds(site: Site) -> None:
    _, (loss,) = series(site, "healthy", LOSS, x="time")
    np.testing.assert_allclose(loss["x"][:3], [0.0, 0.1, 0.2], atol=1e-6)
    assert site.ask("/api/series?run=healthy&x=epoch&name=" + quote(LOSS))[0] == 404


def test_going_back_to_a_curve_costs_nothing(site: Site) -> None:
    path = f"/api/series?run=healthy&name={quote(LOSS)}"
    tag = site.ask(path)[1]["etag"]
    assert site.ask(path, If_None_Match=tag)[0] == 304


def test_ten_thousand_tensors_are_named_and_drawn(site: Site) -> None:
    names = site.json("/api/names?run=wide")
    assert len(names["tensors"]["gradient"]) == 10_000
    assert "l2" in names["statistics"]["gradient"]
    _, (last,) = series(site, "wide", "train/gradient.l2/blocks.9999.weight")
    np.testing.assert_array_equal(last["last"], [1, 2, 3, 4])


def test_names_of_a_hostile_run_are_only_text(site: Site) -> None:
    name = quote("a&b=c%2F#'\"", safe="")
    found = site.json(f"/api/findings?run={name}")
    assert found["worst"][0]["layer"] == HOSTILE
    assert HOSTILE in site.json(f"/api/logs?run={name}")["lines"]


def test_the_source_is_shown_where_it_is_as_it_was(site: Site, tmp_path: Path) -> None:
    finding = site.json("/api/findings?run=nan")["stories"][0]["root"]
    lines = site.json(f"/api/source?run=nan&finding={finding}")
    assert lines["line"] == 4
    assert lines["lines"] == SCRIPT.splitlines()


def test_a_source_that_was_changed_or_not_noted_is_not_shown(tmp_path: Path, made: Path) -> None:
    (tmp_path / "train.py").write_text(SCRIPT)
    make_faulty(tmp_path / "run")
    MadeRun(tmp_path / "other")
    (tmp_path / "train.py").write_text("changed\n")
    served = Site(tmp_path)
    served.start()
    try:
        finding = served.json("/api/findings?run=run")["stories"][0]["root"]
        problem = served.json(f"/api/source?run=run&finding={finding}")["problem"]
    finally:
        served.stop()
    assert "was changed after the run began" in problem


def test_a_replay_that_was_made_later_is_told(tmp_path: Path) -> None:
    run = MadeRun(tmp_path / "run")
    run.train([1.0, 0.5])
    run.end()
    served = Site(tmp_path)
    served.start()
    try:
        before = served.json("/api/run?run=run")
        write_replay(run.attempt, StoredReplay(step=1, lines=("step 1",), edited=("finite now",)))
        until(lambda: served.json("/api/run?run=run")["replayed"])
        after = served.json("/api/run?run=run")
    finally:
        served.stop()
    assert before["replayed"] == []
    assert after["replayed"] == ["step 1", "with the edited script:", "finite now"]


def test_output_comes_as_lines_and_then_what_was_added(site: Site, made: Path) -> None:
    logs = site.json("/api/logs?run=healthy")
    assert logs["lines"][-1].startswith("epoch 299")
    assert site.json(f"/api/logs?run=healthy&after={logs['next']}")["lines"] == []
    assert site.json("/api/logs?run=healthy&lines=2")["lines"] == logs["lines"][-2:]
    assert "No output was stored" in site.json("/api/logs?run=empty")["problem"]


def test_one_scalar_of_many_runs_comes_at_once(site: Site) -> None:
    _, curves = unpacked(
        site.ask("/api/compare?run=healthy&run=nan&run=empty&run=gone&name=train/loss")[2]
    )
    assert [curve["name"] for curve in curves] == ["healthy", "nan", "empty", "gone"]
    assert [curve["count"] for curve in curves] == [120, 60, 0, 0]
    assert "no train/loss" in curves[2]["note"]
    assert "no run 'gone'" in curves[3]["note"]


@pytest.mark.parametrize(
    ("path", "status", "words"),
    [
        ("/api/run?run=helthy", 404, "did you mean 'healthy'?"),
        ("/api/run?run=../web", 404, "there is no run"),
        ("/api/run?run=/etc", 404, "there is no run"),
        ("/api/run", 404, "there is no run"),
        ("/api/series?run=healthy&name=train/los", 404, "there is no curve"),
        ("/api/series?run=healthy&name=train/gradient.l2/nope", 404, "nope"),
        ("/api/series?run=healthy&name=train/gradient.nope/x", 404, "there is no curve"),
        ("/api/series?run=healthy&worker=7&name=x", 404, "no rank 7"),
        ("/api/series?run=healthy&from=x", 400, "whole number"),
        ("/api/source?run=healthy&finding=x", 404, "no finding"),
    ],
)
def test_what_is_not_there_has_a_sentence(site: Site, path: str, status: int, words: str) -> None:
    found, _, body = site.ask(path)
    assert found == status
    assert words in json.loads(body)["error"]


def test_bounds_are_kept_whatever_is_asked_for(site: Site) -> None:
    _, (loss,) = series(site, "healthy", LOSS, **{"from": -5, "to": 10**30, "px": 10**30})
    assert loss["count"] == 120
    _, (few,) = series(site, "healthy", LOSS, px=-1)
    assert few["count"] <= 2


def test_a_run_that_is_removed_while_open_is_named(tmp_path: Path) -> None:
    run = MadeRun(tmp_path / "gone")
    run.train([1.0, 0.5])
    run.end()
    served = Site(tmp_path)
    served.start()
    try:
        assert served.json("/api/run?run=gone")["steps"] == 2
        shutil.rmtree(tmp_path / "gone")
        status, _, body = served.ask("/api/run?run=gone")
    finally:
        served.stop()
    assert status == 404
    assert "removed" in json.loads(body)["error"]


def test_a_job_that_has_ended_can_be_asked_for_nothing(site: Site) -> None:
    body = json.dumps({"tensors": "gradients"}).encode()
    status, _, text = site.ask("/api/control/capture?run=healthy", "POST", body, X_Mothtrap="1")
    assert status == 409
    assert "it takes no requests" in json.loads(text)["error"]
    assert site.ask("/api/control/explode?run=healthy", "POST", b"{}", X_Mothtrap="1")[0] == 404
    huge = b" " * 100_000
    assert site.ask("/api/control/capture?run=live", "POST", huge, X_Mothtrap="1")[0] == 400


def test_a_finding_is_acknowledged_and_muted(tmp_path: Path) -> None:
    make_faulty(tmp_path / "x")
    served = Site(tmp_path)
    served.start()
    try:
        finding = served.json("/api/findings?run=x")["stories"][0]["root"]
        body = json.dumps({"finding": finding, "note": "known"}).encode()
        assert served.ask("/api/control/ack?run=x", "POST", body, X_Mothtrap="1")[0] == 200
        mark = served.json("/api/findings?run=x")["marks"][finding]
        assert (mark["kind"], mark["note"]) == ("acknowledged", "known")
        body = json.dumps({"finding": finding, "hours": 8}).encode()
        assert served.ask("/api/control/mute?run=x", "POST", body, X_Mothtrap="1")[0] == 200
        mark = served.json("/api/findings?run=x")["marks"][finding]
        assert mark["until_s"] - mark["at_s"] == pytest.approx(8 * 3600)
        body = json.dumps({"finding": "nope"}).encode()
        assert served.ask("/api/control/mute?run=x", "POST", body, X_Mothtrap="1")[0] == 404
    finally:
        served.stop()


def test_events_tell_how_a_run_stands_and_go_on_where_they_were(site: Site) -> None:
    import http.client

    connection = http.client.HTTPConnection("127.0.0.1", site.port, timeout=20)
    token = {"Authorization": f"Bearer {'t' * 43}"}
    connection.request("GET", "/api/events?run=healthy", headers=token)
    answer = connection.getresponse()
    assert answer.getheader("content-type", "").startswith("text/event-stream")
    lines = [answer.readline() for _ in range(5)]
    connection.close()
    assert lines[0] == b"retry: 1000\n"
    assert lines[2].startswith(b"id: 1-")
    assert lines[3] == b"event: state\n"
    assert json.loads(lines[4].removeprefix(b"data: "))["steps"] == 120


def test_a_boosted_model_has_rounds_and_metrics_in_the_place_of_losses(tmp_path: Path) -> None:
    run = MadeRun(tmp_path / "boosted")
    run.boost([0.7, 0.8, 0.9])
    run.close()
    served = Site(tmp_path)
    served.start()
    try:
        about = served.json("/api/run?run=boosted")
    finally:
        served.stop()
    assert about["unit"] == "round"
    assert about["losses"] == ["train/train.auc:train.py:4 train"]


def test_the_loss_of_boosting_stands_beside_its_metric_of_an_evaluation(tmp_path: Path) -> None:
    run = MadeRun(tmp_path / "boosted")
    run.boost([0.7, 0.8], loss="booster train logloss", evaluated="logloss")
    run.close()
    served = Site(tmp_path)
    served.start()
    try:
        about = served.json("/api/run?run=boosted")
    finally:
        served.stop()
    assert about["losses"] == ["train/loss:booster train logloss", "eval/logloss:test"]
