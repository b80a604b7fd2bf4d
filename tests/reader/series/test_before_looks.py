"""A run and a snapshot stored by commit 2c818fe, before runs listed the detectable facts.

`train.py` was run there by `mothtrap run`; `show.json` is the output of `show --format json`.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from tests.harness.running import MOTHTRAP, PYTHON, run, show

from mothtrap.core.config import Config
from mothtrap.core.fact import UnknownFact
from mothtrap.core.facts.data import LoaderBegan, NonfiniteInput
from mothtrap.core.facts.losses import LossCall
from mothtrap.core.findings import RuleState
from mothtrap.monitor.afterwards import judge_again
from mothtrap.monitor.catalogue import load_rules
from mothtrap.reader.run import Run, open_run

FOLDER = Path(__file__).parents[1] / "data" / "before-looks"
STORED = ("run", "findings", "rules", "blind", "overhead")
"""Keys that come from the stored data; the words of a verdict are the current ones."""


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    """Return a folder of runs with the stored one as `old`."""
    shutil.copytree(FOLDER, tmp_path / "runs" / "old")
    return tmp_path / "runs"


@pytest.fixture
def old(runs: Path) -> Run:
    return open_run("old", runs)


def test_it_shows_as_before(runs: Path) -> None:
    expected = json.loads((FOLDER / "show.json").read_text(encoding="utf-8"))
    shown = show(Path("runs/old"), cwd=runs.parent)
    for finding in shown["findings"]:
        del finding["title"]  # it had none
    assert shown["run"].pop("kind") == "train"  # no kind was stored
    shown["overhead"] = {key: shown["overhead"][key] for key in expected["overhead"]}
    assert {key: shown[key] for key in STORED} == {key: expected[key] for key in STORED}


def test_its_facts_are_read(old: Run) -> None:
    assert old.damage == ()
    assert old.observations(UnknownFact) == ()
    (loader,) = old.observations(LoaderBegan)
    assert (loader.samples, loader.batch_size) == (120, 4)
    (bad,) = old.observations(NonfiniteInput)
    assert (bad.step, bad.nan, bad.rows) == (20, 16, (0, 1, 2, 3))
    assert {call.operation for call in old.observations(LossCall)} == {"cross_entropy"}


def test_its_rules_are_judged_as_before(old: Run) -> None:
    """It does not list the detectable facts: a rule without a fact is ok, as it was then."""
    again = {status.name: status.state for status in judge_again(old, load_rules(Config())).rules}
    before = {status.name: status.state for status in old.rules}
    facts_alone = ("disconnected_parameter", "parameter_without_optimizer", "memory_growth")
    assert {name: again[name] for name in facts_alone} == {n: before[n] for n in facts_alone}
    assert again["optimizer_without_model"] is RuleState.OK


def test_its_snapshot_is_replayed(runs: Path) -> None:
    pytest.importorskip("torch")
    shutil.copy(FOLDER / "train.py", runs.parent)
    words = ("replay", "old", "--step", "20", "--runs-dir", runs, "--cwd", runs.parent)
    script = ("--", *PYTHON, "train.py")
    done = run([*MOTHTRAP, *words, "--format", "json", *script], cwd=runs.parent)
    assert done.returncode == 0, done.stderr
    said = json.loads(done.stdout)
    assert (said["step"], said["match"], said["loss"], said["holder"]) == (
        20,
        True,
        "NaN",
        "batch[0]",
    )
