from __future__ import annotations

import math
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from tests.reader import older
from tests.reader.runs import DEAD_PID, closing, info, started, write_worker
from tests.store.records import plain, record

from mothtrap.core.errors import RunNotFoundError, UnknownNameError
from mothtrap.core.facts.captures import Blind, Dropped, Thinned, ToolError
from mothtrap.core.facts.looks import AdapterReports
from mothtrap.core.findings import Finding, RuleState, Severity
from mothtrap.core.records import Scalar
from mothtrap.core.runs import RuleStatus, RunEnd
from mothtrap.core.steps import Mode, StepKey
from mothtrap.reader.files import attempts
from mothtrap.reader.run import open_run
from mothtrap.store import layout
from mothtrap.store.finding_log import FindingLog


def create(folder: Path, **changes: object) -> Path:
    return layout.create_run(folder / "digits", info(**changes))


def test_a_finished_run_tells_what_it_holds(tmp_path: Path) -> None:
    attempt = create(tmp_path, pid=DEAD_PID)
    write_worker(attempt, *(record(step) for step in range(5)), closing(5))
    layout.write_end(attempt, RunEnd(exit_code=0, ended_s=9.0))
    run = open_run("digits", tmp_path)
    assert (run.id, run.path, run.attempts, run.workers) == ("digits", attempt.parent, 1, (0,))
    assert (run.state, run.steps, run.damage) == ("finished", 5, ())
    assert run.end == RunEnd(exit_code=0, ended_s=9.0)
    assert repr(run) == "<Run digits: finished, 5 steps, 1 worker, 0 findings (0 errors)>"
    assert (run.overhead.seconds, run.overhead.ratio) == (1.0, 0.02)
    assert [plain(r) for r in run.records()][:5] == [plain(record(step)) for step in range(5)]


def test_the_state_follows_processes_and_ends(tmp_path: Path) -> None:
    def state(name: str, *items: object, end: int | None = None, **changes: object) -> str:
        attempt = layout.create_run(tmp_path / name, info(**changes))
        if items:
            write_worker(attempt, *items)  # type: ignore[arg-type]
        if end is not None:
            layout.write_end(attempt, RunEnd(exit_code=end, ended_s=1.0))
        return open_run(tmp_path / name).state

    here = record(0, observations=(started(os.getpid()),))
    assert state("launched, before the first step") == "running"
    assert state("launched, in it", record(0)) == "running"
    assert state("launched, worker closed", record(0), closing(1)) == "running"
    assert state("launched, ended", record(0), closing(1), end=0) == "finished"
    assert state("launched, failed before the first step", end=1) == "crashed"
    assert state("exit 7", record(0), closing(1), end=7) == "finished"
    assert state("nothing observed", end=0) == "finished"
    assert state("exception", record(0), closing(1, exception="ValueError"), end=1) == "crashed"
    assert state("killed", record(0), end=-9) == "crashed"
    assert state("killed after closing", record(0), closing(1), end=-11) == "crashed"
    assert state("watched", here) == "running"
    assert state("watched and closed", here, closing(1)) == "finished"
    assert state("launcher died", record(0), pid=DEAD_PID) == "crashed"
    assert state("watcher gone", record(0), closing(1), pid=DEAD_PID) == "finished"
    assert state("pid of another process", record(0), created_s=1e9) == "crashed"
    assert state("other host", record(0), host="elsewhere", pid=DEAD_PID) == "running"


def test_a_quiet_run_of_another_host_has_crashed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    attempt = create(tmp_path, host="elsewhere")
    write_worker(attempt, record(0))
    monkeypatch.setattr(attempts, "QUIET_S", -1.0)
    assert open_run(tmp_path / "digits").state == "crashed"


def test_a_dead_child_is_dead_even_before_it_is_reaped(tmp_path: Path) -> None:
    child = subprocess.Popen([sys.executable, "-c", ""], stdout=subprocess.PIPE)
    assert child.stdout
    create(tmp_path, pid=child.pid)
    child.stdout.read()
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)  # now a zombie
    assert open_run(tmp_path / "digits").state == "crashed"
    child.wait()
    child.stdout.close()


def test_refresh_reads_what_is_new(tmp_path: Path) -> None:
    attempt = create(tmp_path)
    run = open_run(tmp_path / "digits")
    assert (run.steps, run.scalars("loss"), run.workers) == (0, (), ())
    log = write_worker(attempt, record(0), seal=False)
    run.refresh()
    assert len(run.stats("gradient")["l2"]) == 1
    log.append([record(1)])
    assert run.steps == 1
    run.refresh()
    assert run.steps == 2
    assert run.scalars("loss")[0].steps_S.tolist() == [0, 1]
    assert run.stats("gradient")["l2"].steps_S.tolist() == [0, 1]
    log.close()


def test_scalars_are_chosen_by_glob_and_mode(tmp_path: Path) -> None:
    attempt = create(tmp_path)
    scalars = (Scalar("lr", "adam", 0.1), Scalar("lr", "sgd", 0.2), Scalar("loss", "a", math.nan))
    key = StepKey(step=1, mode=Mode.EVAL)
    write_worker(
        attempt,
        record(0, scalars=scalars),
        record(1, key=key, optimizers=(), scalars=(Scalar("loss", "a", 3.0),)),
    )
    run = open_run(tmp_path / "digits")
    assert [(s.name, s.of) for s in run.scalars("lr")] == [("lr", "adam"), ("lr", "sgd")]
    assert [s.of for s in run.scalars("lr:s*")] == ["sgd"]
    assert np.isnan(run.scalars("loss", Mode.TRAIN)[0].values_S).all()
    assert run.scalars("loss", Mode.EVAL)[0].values_S.tolist() == [3.0]
    assert len(run.scalars("loss")) == 2
    assert run.steps == 1


def test_statistics_are_chosen_by_layer(tmp_path: Path) -> None:
    attempt = create(tmp_path)
    write_worker(attempt, *(record(step) for step in range(3)))
    run = open_run(tmp_path / "digits")
    found = run.stats("gradient", "layer[12]", ("l2", "mean"))
    assert [t.name for t in found["l2"].tensors] == ["layer1", "layer2"]
    assert found["l2"].values_ST.tolist() == [[22.0 + s, 35.0 + s] for s in range(3)]
    assert found["mean"].present_ST.all()
    assert len(run.stats("weight")["l2"]) == 0
    with pytest.raises(UnknownNameError, match="did you mean 'gradient'"):
        run.stats("gradiant")
    with pytest.raises(UnknownNameError, match="there is no statistic 'l3'"):
        run.stats("gradient", statistics=("l3",))


def test_a_restart_replaces_the_steps_that_it_repeats(tmp_path: Path) -> None:
    first = create(tmp_path, pid=DEAD_PID)
    write_worker(first, *(record(step) for step in range(6)), seal=False)
    second = layout.create_attempt(tmp_path / "digits", info(attempt=2))
    again = (Scalar("loss", "main", 9.0),)
    defined = record(0).defined  # ids belong to one process
    write_worker(
        second,
        record(4, scalars=again, defined=defined),
        *(record(step, scalars=again) for step in (5, 6)),
    )
    run = open_run(tmp_path / "digits")
    (loss,) = run.scalars("loss")
    assert loss.steps_S.tolist() == [0, 1, 2, 3, 4, 5, 6]
    assert loss.values_S[4:].tolist() == [9.0, 9.0, 9.0]
    assert loss.total == 7
    assert run.stats("gradient")["l2"].steps_S.tolist() == [0, 1, 2, 3, 4, 5, 6]
    assert (run.attempts, run.steps, run.state) == (2, 7, "running")


def finding(step: int, **changes: object) -> Finding:
    values: dict[str, object] = {
        "code": "GRD101",
        "name": "exploding_gradient",
        "severity": Severity.WARNING,
        "step": step,
        "detected_step": step + 1,
        "message": f"at {step}",
        "fingerprint": "f",
    }
    return Finding(**(values | changes))  # type: ignore[arg-type]


def test_findings_and_rules_of_workers_are_joined(tmp_path: Path) -> None:
    attempt = create(tmp_path)
    for monitor, revisions in enumerate(
        (
            [finding(5, count=1), finding(5, count=7, severity=Severity.ERROR)],
            [finding(3, count=2, workers=(1,)), finding(1, fingerprint="g")],
        )
    ):
        log = FindingLog(layout.monitor_folder(attempt, monitor))
        log.append(
            revisions,
            [
                RuleStatus(code="A", name="a", state=RuleState.ERROR if monitor else RuleState.OK),
                RuleStatus(code="B", name="b", state=list(RuleState)[3 + monitor]),
            ],
        )
        log.close()
    run = open_run(tmp_path / "digits")
    assert [(f.fingerprint, f.step) for f in run.findings] == [("f", 3), ("g", 1)]
    joined = run.findings[0]
    assert (joined.severity, joined.count, joined.workers) == (Severity.ERROR, 7, (0, 1))
    assert joined.message == "at 3"
    assert [(s.code, s.state) for s in run.rules] == [
        ("A", RuleState.ERROR),
        ("B", RuleState.NOT_ENOUGH_DATA),
    ]


def test_own_troubles_are_told(tmp_path: Path) -> None:
    attempt = create(tmp_path)
    troubles = (
        Blind(step=0, what="fc", reason="compiled"),
        Blind(step=3, what="fc", reason="compiled"),
        ToolError(step=1, part="monitor", error="boom"),
        Dropped(step=1, what="step", count=3, reason="queue full"),
        Dropped(step=2, what="step", count=4, reason="queue full"),
    )
    scalars = (Scalar("own_s", "", 0.5), Scalar("step_s", "", 10.0))
    write_worker(attempt, record(0, observations=troubles, scalars=scalars))
    run = open_run(tmp_path / "digits")
    assert run.blind == troubles[:1]
    assert run.tool_errors == troubles[2:3]
    assert run.dropped == 7
    assert (run.overhead.seconds, run.overhead.ratio) == (0.5, 0.05)


@pytest.mark.parametrize(("adapter", "slows"), [("torch", True), ("jax", False)])
def test_only_a_script_with_hooks_between_its_lines_is_slowed(
    tmp_path: Path, adapter: str, slows: bool
) -> None:
    scalars = (Scalar("own_s", "", 0.5), Scalar("step_s", "", 10.0))
    seen = (AdapterReports(step=0, adapter=adapter),)
    write_worker(create(tmp_path), record(0, observations=seen, scalars=scalars))
    cost = open_run(tmp_path / "digits").overhead
    assert (cost.slowed_seconds > 0.0) is slows
    assert cost.added_seconds == pytest.approx(cost.seconds + cost.slowed_seconds)


def test_where_all_rules_were_switched_off_no_rule_is_ok(tmp_path: Path) -> None:
    attempt = create(tmp_path)
    failed = ToolError(step=1, part="rules", error="OSError: boom")
    write_worker(attempt, record(0, observations=(failed,)))
    log = FindingLog(layout.monitor_folder(attempt, 0))
    states = (RuleState.ERROR, RuleState.OK, RuleState.NOT_ENOUGH_DATA)
    codes = [RuleStatus(code=f"A{n}", name="a", state=state) for n, state in enumerate(states)]
    log.append([], codes)
    log.close()
    run = open_run(tmp_path / "digits")
    off = RuleState.RULE_FAILED
    assert [status.state for status in run.rules] == [RuleState.ERROR, off, off]
    assert run.rules[1].reason == "from step 1 on; mothtrap failed there: OSError: boom"
    assert run.verdict.startswith("2 rules were switched off: A1 a, A2 a (from step 1 on). ")
    assert "The other rules found nothing wrong in 1 step." in run.verdict


def test_what_was_thinned_is_told_of_a_run_that_was_killed_too_most_thinned_first(
    tmp_path: Path,
) -> None:
    def thinned(what: str, count: int, due: int) -> Thinned:
        return Thinned(
            step=0,
            last_step=0,
            what=what,
            kinds=("weight",),
            statistics=("mean",),
            count=count,
            due=due,
        )

    attempt = create(tmp_path)
    facts = (thinned("means", 1, 8), thinned("copies", 1, 1), thinned("means", 40, 100))
    write_worker(attempt, record(0, observations=facts))
    write_worker(attempt, record(0, observations=(thinned("copies", 9, 10),)))
    run = open_run(tmp_path / "digits")
    assert run.overhead.shed == (
        "copies (10 of 11 captures)",
        "means (41 of 108 captures)",
    )
    assert run.dropped == 0  # no queue was full


def test_damage_is_told_and_costs_its_part_alone(tmp_path: Path) -> None:
    attempt = create(tmp_path, pid=DEAD_PID)
    write_worker(attempt, *(record(step) for step in range(3)), seal=False)
    layout.write_end(attempt, RunEnd(exit_code=-9, ended_s=1.0))
    (attempt / "run.json").write_text("{")
    events = attempt / "w0" / "events-00000000.arrow"
    events.write_bytes(events.read_bytes()[:-1])
    stats = attempt / "w0" / "stats-00000000.arrow"
    data = bytearray(stats.read_bytes())
    data[-9] ^= 1
    data[len(data) // 2] ^= 1
    stats.write_bytes(data)
    run = open_run(tmp_path / "digits")
    assert (run.steps, run.info, run.id) == (2, None, "digits")
    assert len(run.stats("gradient")["l2"]) == 1
    told = "\n".join(run.damage)
    for part in ("run.json cannot be read", "1/w0/events-0", "1/w0/stats-0", "1 steps lack"):
        assert part in told


def test_a_run_without_its_description_opens_with_the_damage_named(tmp_path: Path) -> None:
    attempt = create(tmp_path, pid=DEAD_PID)
    write_worker(attempt, *(record(step) for step in range(3)), closing(3))
    layout.write_end(attempt, RunEnd(exit_code=0, ended_s=1.0))
    (attempt / "run.json").unlink()
    run = open_run("digits", tmp_path)
    assert (run.steps, run.state, run.info) == (3, "finished", None)
    (damage,) = run.damage
    assert "run.json is missing" in damage


def test_a_run_whose_findings_are_gone_opens_with_the_damage_named(tmp_path: Path) -> None:
    attempt = create(tmp_path, pid=DEAD_PID)
    write_worker(attempt, *(record(step) for step in range(3)), closing(3))
    log = FindingLog(layout.monitor_folder(attempt, 0))
    log.append([], [RuleStatus(code="A", name="a", state=RuleState.OK)])
    log.close()
    assert open_run("digits", tmp_path).damage == ()
    for file in layout.monitor_folder(attempt, 0).iterdir():
        file.unlink()
    (damage,) = open_run("digits", tmp_path).damage
    assert "m0: no files of findings" in damage


def test_a_question_imports_no_functions_of_arrow(tmp_path: Path) -> None:
    write_worker(create(tmp_path, pid=DEAD_PID), *(record(step) for step in range(3)))
    code = """if True:
        import sys
        from mothtrap.reader.run import open_run
        run = open_run(sys.argv[1])
        assert len(run.tensor("gradient:layer1").history("l2")) == 3
        assert "pyarrow.compute" not in sys.modules
        import pyarrow
        pyarrow.array([[1]]).flatten()
        assert "pyarrow.compute" in sys.modules  # else it has another name
    """
    subprocess.run([sys.executable, "-c", code, str(tmp_path / "digits")], check=True)


def test_a_run_of_an_earlier_version_says_the_same(tmp_path: Path) -> None:
    stats = older.FOLDER / "1" / "w0" / "stats-00000000.arrow"
    # otherwise it is not of an earlier version
    assert "mode_step" in pa.ipc.open_file(stats).schema.names
    log = write_worker(create(tmp_path, pid=DEAD_PID), seal=False)
    for records in older.items():
        log.append(records)
    log.close()
    now, before = open_run("digits", tmp_path), open_run(older.FOLDER)
    assert [plain(r) for r in before.records()] == [
        plain(r) for batch in older.items() for r in batch
    ]
    assert [plain(r) for r in before.records()] == [plain(r) for r in now.records()]
    for name in ("stats", "scalars", "steps", "tensors"):
        assert before.table(name).equals(now.table(name))
    history = [run.tensor("gradient:layer1").history("l2") for run in (before, now)]
    assert history[0].values_S.tobytes() == history[1].values_S.tobytes()
    assert history[0].steps_S.tolist() == history[1].steps_S.tolist() == [0, 1, 2, 3]
    assert before.damage == now.damage


def test_a_run_that_is_starting_is_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its folder is created while the reader waits."""
    monkeypatch.setattr("mothtrap.reader.run.time.sleep", lambda _: create(tmp_path))
    assert open_run("digits", tmp_path, timeout_s=60).id == "digits"


def test_a_run_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(RunNotFoundError, match="no run found"):
        open_run("nothing", tmp_path)
