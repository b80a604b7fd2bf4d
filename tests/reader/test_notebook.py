from __future__ import annotations

from pathlib import Path

import pytest
from tests.core.test_display import HOSTILE, PLAIN_TAGS, seen
from tests.reader.runs import closing, info, write_worker
from tests.store.records import record

from mothtrap.core.facts.captures import Dropped
from mothtrap.core.findings import Finding, Severity
from mothtrap.core.runs import RunEnd
from mothtrap.core.tensors import TensorInfo
from mothtrap.reader.run import open_run
from mothtrap.store import layout
from mothtrap.store.finding_log import FindingLog


@pytest.mark.parametrize("text", HOSTILE)
def test_a_run_and_its_tensors_show_themselves_whatever_their_names(
    tmp_path: Path, text: str
) -> None:
    attempt = layout.create_run(
        tmp_path / "x", info(command=("python", text.encode("utf-8", "replace").decode()))
    )
    tensor = TensorInfo(kind="weight", name=text, module=text, module_type=text, location=text)
    lost = Dropped(step=0, what=text, count=3, reason=text)
    write_worker(attempt, record(0, tensors=1, defined=((0, tensor),), observations=(lost,)))
    log = FindingLog(layout.monitor_folder(attempt, 0))
    log.append(
        [
            Finding(
                code="X001",
                name=text,
                severity=Severity.WARNING,
                step=0,
                detected_step=0,
                message=text,
                layers=(text,),
                fixes=(text,),
            )
        ]
    )
    log.close()
    run = open_run(tmp_path / "x")
    (only,) = run.tensors()
    for html in (run._repr_html_(), only._repr_html_()):
        found = seen(html)
        assert set(found.tags) <= PLAIN_TAGS
        assert found.attributes == []
    assert "X001" in run._repr_html_()
    assert "dropped" in run._repr_html_()
    assert "<th>fix</th>" in run._repr_html_()
    assert "<th>verdict</th>" in run._repr_html_()


def test_a_crash_is_said_before_that_nothing_was_found(tmp_path: Path) -> None:
    attempt = layout.create_run(tmp_path / "x", info())
    write_worker(attempt, record(0), closing(1, exception="IndexError: out of range"))
    layout.write_end(attempt, RunEnd(exit_code=1, ended_s=0.0))
    text = seen(open_run(tmp_path / "x")._repr_html_()).text
    assert "The job ended with IndexError: out of range. Nothing wrong was found" in text


def test_findings_begin_with_the_cause(tmp_path: Path) -> None:
    """A run lists its findings by severity and code; ACT203 would be the first."""
    attempt = layout.create_run(tmp_path / "x", info())
    write_worker(attempt, record(0))
    log = FindingLog(layout.monitor_folder(attempt, 0))
    log.append([found("ACT203", "constant_output"), found("GRD102", "vanishing_gradient")])
    log.close()
    text = seen(open_run(tmp_path / "x")._repr_html_()).text
    assert 0 < text.index("GRD102") < text.index("ACT203")


def found(code: str, name: str) -> Finding:
    return Finding(
        code=code,
        name=name,
        severity=Severity.ERROR,
        step=0,
        detected_step=0,
        message="",
        fingerprint=code,
    )


def test_a_healthy_run_says_so(tmp_path: Path) -> None:
    layout.create_run(tmp_path / "x", info())
    text = seen(open_run(tmp_path / "x")._repr_html_()).text
    assert "No findings." in text
    assert "none yet" in text
