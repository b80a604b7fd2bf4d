"""Monitors of runs in an object store, on several machines."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.actions.servers import web_server
from tests.s3_server import S3Server
from tests.session.children import wait_until
from tests.session.monitoring.live_run import RULES, LiveRun

from mothtrap.core.config import Config
from mothtrap.core.errors import StoreError
from mothtrap.reader.run import open_run
from mothtrap.session.monitoring import follower
from mothtrap.session.monitoring.runs_follower import runs_at
from mothtrap.store import leases, mirror

CONNECTIONS = "ignore:.*the last known state of the run is shown"


@pytest.fixture(autouse=True)
def without_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mirror, "FETCH_EVERY_S", 0.0)
    monkeypatch.setattr(leases, "REFUSED_S", 0.0)


@pytest.mark.filterwarnings(CONNECTIONS)
def test_another_machine_goes_on_where_a_monitor_stopped(
    s3_url: str, s3_server: S3Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "mine.py").write_text(RULES)
    run = LiveRun(tmp_path / "x")
    url = f"{s3_url}/x"

    def on_machine(name: str) -> follower.Follower:
        monkeypatch.setenv("MOTHTRAP_CACHE", str(tmp_path / name))
        monkeypatch.setattr(leases.socket, "gethostname", lambda: name)
        return follower.Follower(url, config, pytest.fail)

    with web_server() as server:

        def told() -> dict[str, str]:
            """Return the kinds of events by the id of their message, in order."""
            bodies = [json.loads(each.body) for each in server.received]
            return {body["id"]: body["data"]["kind"] for body in bodies}

        table = {"do": ["webhook"], "webhook": server.url, "cooldown_s": 0}
        files = (str(tmp_path / "mine.py"),)
        config = Config(rule_files=files, ignore=("LOS",), actions=(table,))
        run.train(1.0, 20.0)
        run.send(url)
        assert runs_at(s3_url) == runs_at(url) == [url]
        first = on_machine("a")
        assert first.look()
        wait_until(lambda: len(server.received) == 1)
        s3_server.stop()
        try:
            first._lease._until_s = 0.0  # time for it to be renewed
            with pytest.raises(StoreError):
                first.look()
        finally:
            s3_server.start()
        assert first.look()

        run.train(2000.0)
        run.send(url)
        second = on_machine("b")
        assert not second.look(), "the lease of a is in force"
        later_s = leases.time.time() + leases.LEASE_S + 1
        second._lease._clock = lambda: later_s
        assert second.look()
        wait_until(lambda: "worsened" in told().values())
        run.end()
        run.send(url)
        second.look()
        assert second.is_done
        assert list(told().values()) == ["opened", "worsened"]

    monkeypatch.setenv("MOTHTRAP_CACHE", str(tmp_path / "reader"))
    opened = open_run(url)
    assert [(f.code, f.severity) for f in opened.findings] == [("ZZZ901", "error")]
    assert opened.unevaluated == ""
    assert opened.damage == ()


def test_results_are_written_again_when_a_monitor_died_before_it_sent_them(
    s3_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "mine.py").write_text(RULES)
    config = Config(rule_files=(str(tmp_path / "mine.py"),), ignore=("LOS",))
    run, url = LiveRun(tmp_path / "x"), f"{s3_url}/x"
    run.train(20.0)
    run.send(url)
    killed = follower.Follower(url, config, pytest.fail)
    assert killed.look(), "its results are in a segment that is not sealed, so they are not sent"
    killed._lease.release()
    run.end()
    run.send(url)
    following = follower.Follower(url, config, pytest.fail)
    following.look()
    assert following.is_done
    monkeypatch.setenv("MOTHTRAP_CACHE", str(tmp_path / "reader"))
    assert [f.code for f in open_run(url).findings] == ["ZZZ901"]
    assert open_run(url).verdict.startswith("High loss")
