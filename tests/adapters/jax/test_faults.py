"""Programs with one fault each: the fault is the headline, and the repaired program is quiet."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("jax")
pytest.importorskip("equinox")

PROGRAMS = Path(__file__).parent / "programs"
FAULTS = {
    "same_key": "STR720",
    "dropped_update": "OPT620",
    "softmax_twice": "STR701",
    "stopped_gradient": "GRD104",
    "rate_too_high": "OPT602",
    "retraced": "RUN906",
    "unscaled_data": "DAT501",
    "log_of_zero": "NUM001",
}


def findings_of(tmp_path: Path, program: str, *arguments: str) -> list[dict]:
    mothtrap = [sys.executable, "-m", "mothtrap"]
    script = [str(PROGRAMS / f"{program}.py"), *arguments]
    run = [*mothtrap, "run", "--quiet", "--runs-dir", str(tmp_path), "--name", "run", *script]
    subprocess.run(run, check=True, cwd=PROGRAMS, capture_output=True, timeout=300)
    show = [*mothtrap, "show", "--runs-dir", str(tmp_path), "run", "--format", "json"]
    shown = subprocess.run(show, capture_output=True, text=True, timeout=120)
    return json.loads(shown.stdout)["findings"]


@pytest.mark.parametrize(("program", "code"), FAULTS.items(), ids=str)
def test_the_fault_is_the_headline(tmp_path: Path, program: str, code: str) -> None:
    loud = [one for one in findings_of(tmp_path, program, "sick") if one["severity"] != "info"]
    assert loud, "nothing was found"
    assert loud[0]["code"] == code, [one["code"] for one in loud]


@pytest.mark.parametrize("program", FAULTS)
def test_the_repaired_program_is_quiet(tmp_path: Path, program: str) -> None:
    loud = [one for one in findings_of(tmp_path, program) if one["severity"] != "info"]
    assert not loud, [(one["code"], one["message"]) for one in loud]
