"""Samples of a step, replays that the page starts, and runs compared."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import numpy as np
import pytest
from click.testing import CliRunner
from tests.web.conftest import Site
from tests.web.deep_runs import NAMES, norms
from tests.web.test_matrix import cells

from mothtrap.cli.ui import command
from mothtrap.core.errors import ConfigError, ControlError
from mothtrap.web import replaying
from mothtrap.web.replaying import Replays


def test_samples_have_names_source_loss_and_replay(site: Site) -> None:
    found = site.json("/api/samples?run=values&at=8")
    (rank,) = found["ranks"]
    (batch,) = rank["batches"]
    assert [(s["index"], s["name"]) for s in batch["samples"]] == [
        (0, "img000.png"),
        (25, "img025.png"),
        (26, "img026.png"),
        (27, "img027.png"),
    ]
    assert found["data"] == {"0": "ImageFolder of 60"}
    assert found["losses"] == [{"curve": "train/loss:train.py:4 SGD", "value": 1.0}]
    assert (found["replay"]["operation"], found["replay_step"]) == ("torch.log", 8)
    assert (found["replayable"], found["runs_replays"]) == ([8], False)
    assert found["command"].endswith("values --step 8")
    other = site.json("/api/samples?run=values&at=3")
    assert (other["command"], other["replay_step"]) == ("", 8)
    assert site.json("/api/samples?run=deep&at=3")["ranks"] == []


def test_the_view_is_offered_where_samples_are_known(site: Site) -> None:
    assert "samples" in site.json("/api/run?run=values")["views"]
    assert "samples" not in site.json("/api/run?run=nan")["views"]


def test_a_sample_is_found_in_other_steps(site: Site) -> None:
    (found,) = site.json("/api/seen?run=values&sample=img000.png")["found"]
    assert [place["step"] for place in found["steps"]] == list(range(12))
    (found,) = site.json("/api/seen?run=values&sample=25")["found"]
    assert [place["step"] for place in found["steps"]] == [8]
    assert site.json("/api/seen?run=values&sample=nothing")["found"] == []


def test_a_replay_is_started_only_where_that_was_allowed(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, body = "/api/control/replay?run=values", b'{"step": 8}'
    status, _, answer = site.ask(path, "POST", body, X_Mothtrap="1")
    assert status == 409
    assert "mothtrap ui --allow-replay" in json.loads(answer)["error"]
    assert site.ask(path, "POST", body)[0] == 403
    asked: list[Any] = []

    def ran(run: Any, step: int) -> dict[str, Any]:
        asked.append((run, step))
        with pytest.raises(ControlError, match="another replay is running"):
            replays.replay(site.runs / "values", body)
        return {"match": True}

    monkeypatch.setattr(replaying, "_replayed", ran)
    replays = Replays(allowed=True)
    assert replays.replay(site.runs / "values", body) == {"match": True}
    assert replays.result(site.runs / "values", 8) == {"match": True}
    assert asked == [(site.runs / "values", 8)]
    with pytest.raises(ConfigError):
        replays.replay(site.runs / "values", b'{"step": 8, "command": "rm"}')


def test_a_replay_that_fails_says_why(site: Site) -> None:
    with pytest.raises(ControlError, match="the replay failed: "):
        Replays(allowed=True).replay(site.runs / "values", b'{"step": 8}')


def test_replays_are_not_for_other_machines(site: Site) -> None:
    words = [str(site.runs), "--allow-replay", "--host", "127.0.0.1"]
    ran = CliRunner().invoke(command, words)
    assert ran.exit_code == 2
    assert "cannot be combined with --host" in ran.output


def test_runs_are_compared_with_the_first(site: Site) -> None:
    found = site.json("/api/diff?run=healthy&run=nan&run=crashed")
    assert found["runs"] == ["healthy", "nan", "crashed"]
    first, second = found["differences"]
    assert first["same"] is False
    assert first["departure"]["step"] == 0
    assert second["same"] is True
    only = {each["code"]: each["steps"] for each in found["findings"]}
    assert only == {"GRD101": {"nan": 40}, "NUM001": {"nan": 45}}


def test_ratios_of_two_runs_are_those_of_their_numbers(site: Site) -> None:
    status, _, body = site.ask("/api/ratio?run=deep&run=ranks")
    assert status == 200
    length = int.from_bytes(body[:4], "little")
    head = msgspec.json.decode(body[4 : 4 + length])
    change = np.frombuffer(body, np.uint8, offset=4 + length).reshape(-1, head["columns"])
    codes = np.cumsum(change, axis=1, dtype=np.uint8)
    assert (head["columns"], head["scale"]) == (30, "ratio")
    leaves = [n for n, row in enumerate(head["rows"]) if row["open"] is None]
    assert (codes[leaves][:3] == 128).all()  # rank 0 of `ranks` has the numbers of `deep`
    assert head["low"] == pytest.approx(1 / head["high"])
    assert cells(site, "deep")[0]["tensors"] == len(NAMES)
    assert norms().shape[0] > 30
