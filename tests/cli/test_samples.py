"""`mothtrap samples`."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner, Result
from tests.cli.stored_run import store_run
from tests.reader.sampled_run import batch, store
from tests.report.faulty_run import exploding

from mothtrap.cli import main
from mothtrap.core.facts.samples import SampleBatch
from mothtrap.reader.run import Run
from mothtrap.reader.samples import suspects

BAD = range(40, 11, -1)
"""Steps of a finding, the last step first."""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    generator = np.random.default_rng(0)
    orders = [generator.permutation(40).tolist() for _ in range(8)]
    rows = [order[at : at + 4] for order in orders for at in range(0, 40, 4)]
    losses = {step: 9.0 if 13 in indices else 1.0 for step, indices in enumerate(rows)}
    steps = {step: [batch(indices, number=step % 10)] for step, indices in enumerate(rows)}
    return store(tmp_path / "run", steps, losses=losses, names={13: "a/thirteen.png"})


def samples(path: Path, *args: str) -> Result:
    return CliRunner().invoke(main, ["samples", str(path), *args])


def test_a_step_is_shown_row_by_row(path: Path) -> None:
    done = samples(path, "--step", "1", "--limit", "2")
    assert done.exit_code == 0
    assert done.output.splitlines() == [
        "step 1, rank 1: 4 rows of loader 1, pass 0, batch 1, from Folder 0",
        "  row 0    index 23",
        "  row 1    index 2",
        "  and 2 more: --limit 4",
    ]


def test_json_has_every_row(path: Path) -> None:
    [step] = json.loads(samples(path, "--step", "1", "--format", "json").output)
    assert (step["step"], step["worker"]) == (1, 1)
    assert [row["index"] for row in step["batches"][0]["samples"]] == [23, 2, 3, 34]
    assert step["batches"][0]["data"][0] == {
        "number": 0,
        "kind": "a.Folder",
        "length": 100,
        "root": "/d/",
    }


def test_the_steps_of_a_sample_are_found(path: Path) -> None:
    done = samples(path, "--seen", "thirteen.png")
    assert done.exit_code == 0
    assert "index 13 a/thirteen.png: " in done.output
    found = json.loads(samples(path, "--seen", "13", "--format", "json").output)
    assert found[0]["name"] == "a/thirteen.png"
    assert found[0]["steps"] == sorted(found[0]["steps"], key=lambda place: place["step"])


def test_a_sample_that_was_never_seen_is_said_so(path: Path) -> None:
    done = samples(path, "--seen", "missing.png")
    assert done.exit_code == 1
    assert "no step with known samples trained on 'missing.png'" in done.output


def test_the_guilty_sample_is_ranked_first(path: Path) -> None:
    done = samples(path, "--rank")
    assert done.exit_code == 0
    lines = done.output.splitlines()
    assert "steps with known samples are bad; 40 distinct samples were used" in lines[0]
    assert lines[1].startswith("  index 13 a/thirteen.png: in ")
    ranked = json.loads(samples(path, "--rank", "--format", "json").output)["ranked"]
    assert ranked[0]["index"] == 13
    assert ranked[0]["stands_out"]


def test_with_few_bad_steps_nothing_is_claimed(path: Path) -> None:
    done = samples(path, "--rank", "--step", "3")
    assert "no sample stands out" in done.output
    assert done.output.splitlines()[2:] == ["4 samples sit in bad steps: --format json lists all"]
    ranked = json.loads(samples(path, "--rank", "--step", "3", "--format", "json").output)["ranked"]
    assert len(ranked) == 4


def test_steps_without_known_samples_are_said(path: Path) -> None:
    done = samples(path, "--step", "999")
    assert done.exit_code == 1
    assert "step 999: its samples are unknown" in done.output


def test_a_rule_that_found_nothing_is_an_error(path: Path) -> None:
    done = samples(path, "--where", "loss_spike")
    assert done.exit_code == 2
    assert "the run has no finding of the rule 'loss_spike'" in done.output


def test_two_things_cannot_be_asked_for(path: Path) -> None:
    done = samples(path, "--seen", "3", "--step", "4")
    assert done.exit_code == 2
    assert "error: " in done.output


def test_without_an_option_the_first_steps_are_listed(path: Path) -> None:
    done = samples(path)
    assert done.exit_code == 0
    *shown, more = [line for line in done.output.splitlines() if not line.startswith(" ")]
    assert [line.partition(",")[0] for line in shown] == ["step 0", "step 1", "step 2"]
    assert more == "and 77 more steps: --limit 80"
    told = json.loads(samples(path, "--format", "json").output)
    assert [step["step"] for step in told] == list(range(80))


def test_a_run_without_samples_says_so(tmp_path: Path) -> None:
    store_run(tmp_path / "bare")
    done = samples(tmp_path / "bare", "--step", "3")
    assert done.exit_code == 1
    assert "the samples of these steps are unknown" in done.output


def test_names_of_a_run_cannot_steer_the_terminal(tmp_path: Path) -> None:
    told = SampleBatch(rows=1, names=("\x1b[2J",), place="\x1b[1m")
    done = samples(store(tmp_path / "run", {0: [told]}), "--step", "0")
    assert "\x1b" not in done.output
    assert r"\x1b[2J" in done.output


@pytest.fixture
def bad_run(path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The same run, with a finding whose steps are 12 to 40."""
    monkeypatch.setattr(suspects, "steps_of", lambda *_: {(1, step): None for step in BAD})
    monkeypatch.setattr(Run, "findings", (exploding(),))
    return path


def test_of_the_steps_of_a_finding_the_first_are_shown(bad_run: Path) -> None:
    def heads(*args: str) -> list[str]:
        done = samples(bad_run, "--where", "GRD101", *args)
        assert done.exit_code == 0
        return [line for line in done.output.splitlines() if not line.startswith(" ")]

    *shown, more = heads()
    assert [line.partition(",")[0] for line in shown] == ["step 12", "step 13", "step 14"]
    assert more == "and 26 more steps: --limit 29"
    assert len(heads("--limit", "5")) == 6
    assert len(heads("--limit", "29")) == 29
    told = samples(bad_run, "--where", "GRD101", "--format", "json").output
    assert [step["step"] for step in json.loads(told)] == list(range(12, 41))


def test_steps_that_are_named_are_all_shown(path: Path) -> None:
    done = samples(path, *(word for step in range(6) for word in ("--step", str(step))))
    assert done.output.count("rows of loader 1") == 6


def test_many_steps_without_known_samples_are_said_in_one_line(path: Path) -> None:
    done = samples(path, "--step", "998", "--step", "999")
    assert "steps 998-999: their samples are unknown" in done.output
