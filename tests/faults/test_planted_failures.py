"""A failure anywhere inside mothtrap leaves the training unchanged and is reported once."""

from __future__ import annotations

import resource
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest
from tests.harness.running import (
    MOTHTRAP,
    PYTHON,
    Outcome,
    environment,
    observed,
    run,
    show,
)

FOLDER = Path(__file__).parent
SCRIPT = FOLDER / "small_training.py"
STEPS = 64
PLANTED = "RuntimeError: planted failure"
FULL_DISK = "No space left on device"


@dataclass(frozen=True)
class Stage:
    """A part of mothtrap: the failure planted in it, and what the run then still contains.

    `steps` are the stored steps; `verdict` is the beginning of the sentence of `show`; `parts` are
    the parts reported as failed, and `told` is whether `show` also names them. `full` are those
    of a part in which another stage fails by default.
    """

    name: str
    plant: str
    parts: tuple[str, ...]
    steps: int = STEPS
    verdict: str = "Nothing wrong was found in 64 steps"
    told: bool = True
    capture: str = "default"
    full: bool = False


UNSTORED = "Nothing was observed: a process trained, but no step was stored"
NOT_WRITTEN = "Nothing was observed: mothtrap failed in writer"
NOT_WATCHED = "Nothing was observed: mothtrap failed in start-up hook for torch"
NOT_SEEN = "Nothing was observed: mothtrap failed in observation of torch"
STAGES = [
    Stage("norms of gradients", "mothtrap.statistics.torch:norms", ("gradients", "updates")),
    Stage(
        "statistics",
        "mothtrap.statistics.torch:summarize",
        ("activations", "data"),
        capture="everything",
    ),
    Stage(
        "statistics with digests",
        "mothtrap.statistics.torch.rows:summarize_and_digest",
        ("gradients",),
        capture="everything",
        full=True,
    ),
    Stage(
        "graph reading",
        "mothtrap.adapters.torch.job.graph:loss_terms",
        ("attention", "data", "loss graph", "loss terms", "views"),
    ),
    Stage("losses", "mothtrap.adapters.torch.losses.backwards:LossObserver.close", ("losses",)),
    Stage(
        "grouper",
        "mothtrap.capture.grouper:Grouper.feed",
        ("observation of torch",),
        steps=0,
        verdict=NOT_SEEN,
    ),
    Stage(
        "module names",
        "mothtrap.adapters.torch.job.naming:NameBook.built",
        ("observation of torch",),
        steps=0,
        verdict=NOT_SEEN,
        full=True,
    ),
    Stage(
        "queue",
        "mothtrap.capture.channel:Channel.put",
        ("queue",),
        steps=0,
        verdict=UNSTORED,
        told=False,
    ),
    Stage(
        "threads behind the queues",
        "mothtrap.capture.channel:Channel._take",
        ("writer", "rules"),
        steps=0,
        verdict=NOT_WRITTEN,
        told=False,
    ),
    Stage(
        "writer",
        "mothtrap.store.worker_log:WorkerLog.append",
        ("writer",),
        steps=0,
        verdict=UNSTORED,
        told=False,
    ),
    Stage(
        "opening of the writer",
        "mothtrap.store.layout:claim_worker",
        ("writer",),
        steps=0,
        verdict=UNSTORED,
        told=False,
        full=True,
    ),
    Stage(
        "sealing of the files",
        "mothtrap.store.worker_log:WorkerLog.close",
        ("writer",),
        told=False,
    ),
    Stage(
        "all rules",
        "mothtrap.monitor.monitor:Monitor.feed",
        ("rules",),
        verdict="Nothing was evaluated in 64 steps: mothtrap failed in rules",
    ),
    Stage(
        "storing of findings",
        "mothtrap.store.finding_log:FindingLog.append",
        ("rules",),
        verdict="Nothing was evaluated in 64 steps: mothtrap failed in rules",
        full=True,
    ),
    Stage(
        "last facts",
        "mothtrap.session.worker:Worker._ending",
        ("closing",),
        told=False,
    ),
    Stage(
        "start-up hook",
        "mothtrap.session.startup:attach",
        ("start-up hook",),
        steps=0,
        verdict=NOT_WATCHED,
    ),
    Stage(
        "loading of rules in the job",
        "mothtrap.monitor.catalogue:load_rules",
        ("start-up hook",),
        steps=0,
        verdict=NOT_WATCHED,
        full=True,
    ),
]


@pytest.fixture(scope="module")
def plain() -> Outcome:
    """Run the training without mothtrap."""
    return run([*PYTHON, SCRIPT], cwd=FOLDER)


def planted(plant: str, folder: Path, **variables: str) -> Outcome:
    """Run the training with a part of mothtrap broken; assert that the fault was reached."""
    env = environment(
        PYTHONPATH=str(FOLDER / "plant"), PLANT=plant, PLANT_LOG=str(folder / "met"), **variables
    )
    outcome = run(observed([SCRIPT], runs_dir=folder / "runs", name="seen"), cwd=folder, env=env)
    assert (folder / "met").exists(), "the planted fault was never met: the test proves nothing"
    return outcome


def live_lines(outcome: Outcome) -> list[str]:
    """Return the lines that mothtrap printed before the verdict."""
    before, verdict, _ = outcome.stderr.rpartition("\n\nmothtrap: ")
    assert verdict, outcome.stderr
    return [line for line in before.splitlines() if line.startswith("mothtrap: ")]


def same_training(seen: Outcome, plain: Outcome) -> None:
    assert plain.returncode == 3, plain.stderr
    assert seen.stdout == plain.stdout
    assert seen.returncode == plain.returncode
    assert plain.stderr in seen.stderr
    assert "Traceback" not in seen.stderr


def reported_once(lines: Sequence[str], parts: Sequence[str], error: str) -> None:
    failures = [line for line in lines if error in line]
    assert len(failures) == len(parts), lines
    for part in parts:
        others = " and the other rules continue" if part.startswith("rule ") else " continues"
        said = f"mothtrap: {part} failed and is switched off; training{others} ("
        if part == "start-up hook":
            said = "mothtrap: cannot watch torch in this process ("
        assert sum(line.startswith(said) for line in failures) == 1, lines


def told_apart(lines: Sequence[str]) -> tuple[str, list[str]]:
    """Return the one line that reports a retry of the disk, and all other lines."""
    (refused,) = [line for line in lines if "captured data cannot be written" in line]
    return refused, [line for line in lines if line != refused]


@pytest.mark.parametrize(
    "stage",
    [pytest.param(s, id=s.name, marks=[pytest.mark.full] if s.full else []) for s in STAGES],
)
def test_a_failure_is_said_once_and_training_goes_on(
    stage: Stage, plain: Outcome, tmp_path: Path
) -> None:
    seen = planted(stage.plant, tmp_path, MOTHTRAP_CAPTURE=stage.capture)
    same_training(seen, plain)
    reported_once(live_lines(seen), stage.parts, PLANTED)

    record = show(tmp_path / "runs" / "seen", cwd=tmp_path)
    assert record["run"]["steps"] == stage.steps
    judged = record["verdict"].removeprefix("The job ended with exit code 3; ")
    assert judged.lower().startswith(stage.verdict.lower())
    if stage.told:
        failures = record["tool_errors"]
        assert len(failures) == len(stage.parts)
        assert all(failure["part"].startswith(stage.parts) for failure in failures)
        # What waited for the part is reported with it; how much that is depends on the threads.
        assert {failure["error"].partition(";")[0] for failure in failures} == {PLANTED}


def test_a_rule_that_fails_leaves_the_others(plain: Outcome, tmp_path: Path) -> None:
    seen = planted("mothtrap.rules.loss_not_decreasing:LossNotDecreasing.check", tmp_path)
    same_training(seen, plain)
    reported_once(live_lines(seen), ["rule LOS401 loss_not_decreasing"], PLANTED)
    record = show(tmp_path / "runs" / "seen", cwd=tmp_path)
    states = {rule["code"]: (rule["state"], rule["reason"]) for rule in record["rules"]}
    assert states.pop("LOS401") == ("rule_failed", PLANTED)
    assert "rule_failed" not in {state for state, _ in states.values()}
    assert "ok" in {state for state, _ in states.values()}


@pytest.mark.parametrize("writes", [0, 8])  # in the second, the first steps are stored whole
def test_a_full_disk_is_said_once_and_the_rules_go_on(
    writes: int, plain: Outcome, tmp_path: Path
) -> None:
    seen = planted("mothtrap.store.segments:!full", tmp_path, PLANT_AFTER=str(writes))
    same_training(seen, plain)
    refused, others = told_apart(live_lines(seen))
    assert FULL_DISK in refused
    reported_once(others, ["writer"], FULL_DISK)
    record = show(tmp_path / "runs" / "seen", cwd=tmp_path)
    assert record["run"]["steps"] < STEPS
    assert record.get("damage", []) == []


def test_a_file_system_that_takes_no_more_bytes(plain: Outcome, tmp_path: Path) -> None:
    """Without a planted fault: the kernel itself refuses writes beyond a file size."""
    limit = 50_000  # more than the first block of a file, less than the whole of the largest
    assert resource.getrlimit(resource.RLIMIT_FSIZE)[1] in (resource.RLIM_INFINITY, -1)
    script = tmp_path / "small_training.py"
    script.write_text(
        f"import resource\nresource.setrlimit(resource.RLIMIT_FSIZE, ({limit}, {limit}))\n"
        + SCRIPT.read_text(encoding="utf-8"),
        encoding="utf-8",
    )
    seen = run(observed([script], runs_dir=tmp_path, name="seen"), cwd=tmp_path)
    same_training(seen, plain)
    refused, _ = told_apart(live_lines(seen))
    assert "File too large" in refused
    assert max(path.stat().st_size for path in tmp_path.rglob("*.arrow")) <= limit
    assert show(tmp_path / "seen", cwd=tmp_path).get("damage", []) == []


def test_a_folder_that_is_removed_while_training_starts(plain: Outcome, tmp_path: Path) -> None:
    script = tmp_path / "small_training.py"
    script.write_text(
        "import os, shutil\nshutil.rmtree(os.environ['MOTHTRAP_RUN_DIR'])\n"
        + SCRIPT.read_text(encoding="utf-8"),
        encoding="utf-8",
    )
    seen = run(observed([script], runs_dir=tmp_path / "runs", name="seen"), cwd=tmp_path)
    same_training(seen, plain)
    failed = [line for line in seen.stderr.splitlines() if "failed and is switched off" in line]
    assert len(failed) == len({line.split(" failed")[0] for line in failed}) > 0


@pytest.mark.parametrize("parent", [False, True], ids=["a file", "below a file"])
def test_runs_that_cannot_be_stored_where_they_should(
    parent: bool, plain: Outcome, tmp_path: Path
) -> None:
    (tmp_path / "runs").write_text("", encoding="utf-8")
    (tmp_path / "tmp").mkdir()
    runs_dir = tmp_path / "runs" / "mine" if parent else tmp_path / "runs"
    command = observed([SCRIPT], runs_dir=runs_dir, name="seen")
    seen = run(command, cwd=tmp_path, env=environment(TMPDIR=str(tmp_path / "tmp")))
    same_training(seen, plain)
    (line,) = [line for line in live_lines(seen) if "cannot write runs" in line]
    assert "--runs-dir" in line
    (kept,) = (tmp_path / "tmp").glob("mothtrap-*/seen")
    assert str(kept) in line
    assert f"mothtrap show {kept.relative_to(tmp_path)}\n" in seen.stderr
    assert show(kept, cwd=tmp_path)["run"]["steps"] == STEPS


def test_where_nothing_can_be_stored_training_goes_on(plain: Outcome, tmp_path: Path) -> None:
    (tmp_path / "runs").write_text("", encoding="utf-8")
    code = (
        "import sys, tempfile\n"
        "def full(*args, **options): raise OSError(28, 'No space left on device')\n"
        "tempfile.mkdtemp = full\n"
        "from mothtrap.cli import main\nmain(sys.argv[1:])\n"
    )
    target = ["--", *PYTHON, SCRIPT]
    words = observed(target, runs_dir=tmp_path / "runs", name="seen")[len(MOTHTRAP) :]
    seen = run([sys.executable, "-c", code, *words], cwd=tmp_path)
    same_training(seen, plain)
    (line,) = [line for line in seen.stderr.splitlines() if line.startswith("mothtrap: ")]
    assert "cannot store anything" in line
    assert FULL_DISK in line
