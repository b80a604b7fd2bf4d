"""Failures around the page have their sentence: a store that is gone, a full disk."""

from __future__ import annotations

import errno
import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from tests.s3_server import S3Server
from tests.s3_server import s3_server as s3_server
from tests.s3_server import s3_url as s3_url
from tests.web.conftest import Site
from tests.web.made_runs import MadeRun, exploding

from mothtrap.session.sending import send
from mothtrap.web import control_api, opened


@pytest.fixture
def own(tmp_path: Path) -> Any:
    """A server over a run with a finding."""
    run = MadeRun(tmp_path / "runs" / "r1")
    run.train([1.0, 0.5])
    run.find(exploding(1))
    run.end()
    served = Site(tmp_path / "runs")
    served.start()
    yield served
    served.stop()


def problem(site: Site, path: str, *words: Any, **headers: str) -> tuple[int, str]:
    """The status and the sentence of a refusal."""
    status, _, body = site.ask(path, *words, **headers)
    return status, json.loads(body)["error"]


def test_a_full_disk_is_said_where_a_finding_is_acknowledged(
    own: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(run: Path, mark: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device", str(run / "marks"))

    monkeypatch.setattr(control_api, "put_mark", full)
    body = json.dumps({"finding": exploding(1).fingerprint}).encode()
    status, said = problem(own, "/api/control/ack?run=r1", "POST", body, X_Mothtrap="1")
    assert status == 503
    assert said == f"No space left on device: {own.runs / 'r1' / 'marks'}"
    assert own.json("/api/run?run=r1")["steps"] == 2


def test_a_run_without_permission_is_named(own: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(path: Path) -> None:
        raise PermissionError(errno.EACCES, "Permission denied", str(path))

    monkeypatch.setattr(opened, "open_run", refused)
    status, said = problem(own, "/api/run?run=r1")
    assert (status, said) == (403, f"No permission to read {own.runs / 'r1'}.")
    assert own.json("/api/runs")["page"]["total"] == 1


def test_a_folder_of_runs_that_is_gone_is_named(own: Site) -> None:
    shutil.rmtree(own.runs)
    status, said = problem(own, "/api/runs")
    assert status == 404
    assert str(own.runs) in said
    assert "Errno" not in said


def test_a_store_that_is_gone_is_said_and_found_again(
    own: Site, s3_server: S3Server, s3_url: str
) -> None:
    send(own.runs / "r1", s3_url, None)
    far = Site(own.runs, where=s3_url)
    far.start()
    try:
        assert far.json("/api/run?run=r1")["steps"] == 2
        s3_server.stop()
        status, said = problem(far, "/api/run?run=r2")
        assert status == 503
        assert s3_url in said
        s3_server.start()
        assert far.json("/api/run?run=r1")["steps"] == 2
    finally:
        far.stop()
