"""The verdict opens with the fault itself, and not with its consequences.

By default a sixth of the programs run with their fault, and another sixth repaired. `HARNESS=full`
runs all in both forms.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.harness.running import FULL, PYTHON, environment, observed, run, show
from tests.stories.expected import HEADLINES

PROGRAMS = Path(__file__).parent / "programs"
MARK = "# <- here"


def record_of(name: str, folder: Path, *options: str) -> dict:
    """Run a program and return the record that `show` prints of it."""
    words = observed(
        ["--", *PYTHON, PROGRAMS / f"{name}.py", *options], runs_dir=folder, name="seen"
    )
    outcome = run(words, cwd=PROGRAMS, env=environment(MOTHTRAP_OVERHEAD="0", OMP_NUM_THREADS="1"))
    assert outcome.returncode == 0, outcome.stderr
    record = show(folder / "seen", cwd=PROGRAMS)
    assert record.get("tool_errors", []) == []
    return record


def told(record: dict) -> str:
    return "\n".join(
        f"{f['severity']} {f['code']} {f['name']} step {f['step']} {f['location']} "
        f"caused by {f['caused_by']}: {f['message']}"
        for f in record["findings"]
    )


@pytest.mark.parametrize("name", list(HEADLINES)[:: 1 if FULL else 6])
def test_the_fault_itself_is_the_headline(name: str, tmp_path: Path) -> None:
    wanted = HEADLINES[name]
    record = record_of(name, tmp_path)
    roots = [story["root"] for story in record["diagnosis"][:1]]
    [root] = [f for f in record["findings"] if f["fingerprint"] in roots]
    assert (root["code"], root["severity"]) == (wanted.code, wanted.severity), told(record)
    for part in wanted.says:
        assert part in root["message"]
    assert root["fixes"][0].startswith(wanted.fix)
    lines = (PROGRAMS / f"{name}.py").read_text(encoding="utf-8").splitlines()
    marked = [f"{name}.py:{n}" for n, line in enumerate(lines, start=1) if line.endswith(MARK)]
    assert root["location"] in marked, told(record)


@pytest.mark.parametrize("name", list(HEADLINES)[0 if FULL else 1 :: 1 if FULL else 6])
def test_the_repaired_program_has_no_headline(name: str, tmp_path: Path) -> None:
    record = record_of(name, tmp_path, "--healthy")
    assert [f["code"] for f in record["findings"] if f["severity"] != "info"] == [], told(record)
