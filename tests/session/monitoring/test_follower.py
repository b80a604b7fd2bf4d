"""A monitor beside the job: findings, verdicts, alerts, and takeover after a crash."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.actions.servers import WebServer, web_server
from tests.harness.running import environment
from tests.session.children import wait_until
from tests.session.monitoring.live_run import RULES, LiveRun

from mothtrap.core.config import Config
from mothtrap.monitor.afterwards import judge_again
from mothtrap.monitor.catalogue import explains, load_rules
from mothtrap.reader.run import Run, open_run
from mothtrap.report.summary import summarize
from mothtrap.session.monitoring.follower import Follower
from mothtrap.session.monitoring.runs_follower import RunsFollower
from mothtrap.store import leases


@pytest.fixture
def config(tmp_path: Path) -> Config:
    (tmp_path / "mine.py").write_text(RULES)
    return Config(rule_files=(str(tmp_path / "mine.py"),), ignore=("LOS",))


def with_webhook(config: Config, server: WebServer) -> Config:
    import msgspec

    table = {"do": ["webhook"], "webhook": server.url, "cooldown_s": 0}
    return msgspec.structs.replace(config, actions=(table,))


def follow(run: LiveRun, config: Config, **options: bool) -> Follower:
    return Follower(str(run.path), config, pytest.fail, **options)


def codes(run: Run) -> list[str]:
    return [finding.code for finding in run.findings if finding.severity != "info"]


def test_findings_are_those_of_the_whole_run(tmp_path: Path, config: Config) -> None:
    run = LiveRun(tmp_path / "x")
    monitor = follow(run, config)
    for losses in ((1.0,) * 5, (20.0,), (30.0, 2000.0), (1.0,) * 40):
        run.train(*losses)
        assert monitor.look()
    assert codes(open_run(run.path)) == ["ZZZ901"]
    run.end()
    assert monitor.look()
    assert monitor.is_done
    opened = open_run(run.path)
    again = judge_again(opened, load_rules(config))
    assert [(f.code, f.step, f.severity) for f in opened.findings] == [
        (f.code, f.step, f.severity) for f in again.findings
    ]
    assert opened.findings[0].step == 5
    assert {s.code: s.state for s in opened.rules} == {s.code: s.state for s in again.rules}
    assert opened.damage == ()


def test_a_run_without_a_monitor_is_never_called_fine(tmp_path: Path, config: Config) -> None:
    run = LiveRun(tmp_path / "x")
    run.train(1.0, 1.0)
    run.end()
    opened = open_run(run.path)
    said = "Rules were not evaluated"
    for verdict in (opened.verdict, summarize(opened, explains()).verdict):
        assert verdict.startswith(said)
        assert "othing wrong" not in verdict
    RunsFollower([str(tmp_path)], config, lambda _: None).run()
    opened = open_run(run.path)
    assert opened.verdict == "Nothing wrong was found in 2 steps."
    assert said not in summarize(opened, explains()).verdict


def test_a_monitor_that_was_interrupted_is_reported(tmp_path: Path, config: Config) -> None:
    run = LiveRun(tmp_path / "x")
    run.train(1.0, 1.0)
    monitor = follow(run, config)
    monitor.look()
    monitor.close()
    run.train(1.0)
    assert "only" not in open_run(run.path).verdict, "the job still runs"
    run.end()
    opened = open_run(run.path)
    for verdict in (opened.verdict, summarize(opened, explains()).verdict):
        assert verdict.startswith("Rules were evaluated only in the first 2 of 3 steps")
    assert follow(run, config).look()
    assert open_run(run.path).verdict == "Nothing wrong was found in 3 steps."


def test_one_monitor_at_a_time_has_a_run(
    tmp_path: Path, config: Config, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(leases, "REFUSED_S", 0.0)
    run = LiveRun(tmp_path / "x")
    run.train(1.0)
    first, second = follow(run, config), follow(run, config)
    assert first.look()
    assert not second.look()
    first.close()
    assert second.look()
    assert not first.look()


def test_monitors_of_different_rules_share_a_run(tmp_path: Path, config: Config) -> None:
    import msgspec

    run = LiveRun(tmp_path / "x", evaluate="job")
    run.train(1.0, 20.0, 0.01)
    assert not follow(run, config).is_meant, "its job evaluates the rules"
    parts = [
        follow(run, msgspec.structs.replace(config, select=(code,)), is_chosen=True)
        for code in ("ZZZ901", "ZZZ902")
    ]
    assert all(part.is_meant and part.look() for part in parts)
    assert sorted(codes(open_run(run.path))) == ["ZZZ901", "ZZZ902"]


def received(server: WebServer) -> list[tuple[str, str]]:
    """Return the delivery id and kind of each message sent, in order."""
    bodies = [json.loads(each.body) for each in server.received]
    return [(body["id"], body["data"]["kind"]) for body in bodies]


def test_what_a_monitor_has_found_and_not_sent_is_sent_by_the_next(
    tmp_path: Path, config: Config
) -> None:
    run = LiveRun(tmp_path / "x")
    run.train(20.0)
    with web_server() as server:
        acting = with_webhook(config, server)
        first = follow(run, acting)
        first.look()
        wait_until(lambda: len(server.received) == 1)
        first.close()
        run.train(2000.0)
        silent = follow(run, config)  # stores that the finding got worse, and sends nothing
        silent.look()
        silent.close()
        last = follow(run, acting)
        last.look()
        wait_until(lambda: len(server.received) == 2)
        run.end()
        last.look()
        assert last.is_done
        kinds = [kind for _, kind in received(server)]
        assert kinds == ["opened", "worsened"]


START_S = 240
"""Far longer than a process needs to start, even on a busy machine."""
PROGRAM = "import sys; from mothtrap.cli import main; main(sys.argv[1:])"


def started(folder: Path) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-c", PROGRAM, "monitor", "runs", "--new"]
    return subprocess.Popen(command, cwd=folder, env=environment(), stderr=subprocess.DEVNULL)


def test_a_killed_monitor_loses_no_alert(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(RULES)
    (tmp_path / "runs").mkdir()
    runs = [LiveRun(tmp_path / "runs" / f"r{number}") for number in range(3)]
    with web_server() as server:
        (tmp_path / "mothtrap.toml").write_text(
            f'rule_files = ["mine.py"]\nignore = ["LOS"]\n'
            f'[[actions]]\ndo = ["webhook"]\nwebhook = "{server.url}"\ncooldown_s = 0\n'
        )

        def told(kind: str) -> set[str]:
            bodies = [json.loads(each.body) for each in server.received]
            return {b["data"]["run"] for b in bodies if b["data"]["kind"] == kind}

        every = {"r0", "r1", "r2"}
        for run in runs:
            run.train(1.0, 20.0)
        first = started(tmp_path)
        try:
            wait_until(lambda: told("opened") == every, START_S)
        finally:
            first.kill()
            first.wait()
        for run in runs:
            run.train(2000.0)
        second = started(tmp_path)
        try:
            wait_until(lambda: told("worsened") == every, START_S)
            for run in runs:
                run.end()
            wait_until(lambda: all(_is_complete(run.path) for run in runs), START_S)
        finally:
            second.kill()
            second.wait()
        ids = [name for name, _ in received(server)]
        kinds: dict[str, str] = dict(received(server))
        assert len(kinds) == 6, received(server)
        assert len(ids) <= 9, "what was sent again has the id that it had"


def _is_complete(path: Path) -> bool:
    opened = open_run(path)
    return opened.state == "finished" and not opened.unevaluated


def test_actions_on_the_job_happen_once(tmp_path: Path, config: Config) -> None:
    import msgspec

    run = LiveRun(tmp_path / "x")
    acting = msgspec.structs.replace(config, actions=({"do": ["stop"]},))
    requests: Callable[[], int] = lambda: len(list((run.path / "control").glob("*.json")))  # noqa: E731
    run.train(20.0)
    said: list[str] = []
    for _ in range(2):
        monitor = Follower(str(run.path), acting, said.append)
        monitor.look()
        monitor.close()
        assert requests() == 1
    assert len(said) == 1
    assert "stop" in said[0]
