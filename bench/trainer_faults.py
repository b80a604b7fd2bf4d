"""Faults in scripts of trainers that are named, and errors about their repaired twins.

The cases of `faultbench/trainers` run one at a time in this process, recorded in memory. A
fault is named if a finding of severity warning or error comes from one of the rules in
`faultbench/expected.json`.

Run: .venv-trainers/bin/python bench/trainer_faults.py lightning|transformers [--only NAME,...]
The exit code is 1 when a fault is not named, or a twin has an error.
"""

from __future__ import annotations

import argparse
import importlib
import json
import sys
from pathlib import Path
from typing import Any

from mothtrap.core.findings import Finding, Severity
from mothtrap.session.adapters import load
from mothtrap.testing.adapters import Process

BENCH = Path(__file__).parent / "faultbench"
SCRIPTS = {"lightning": "by_lightning", "transformers": "by_trainer"}


def findings(script: Any, trainer: str, case: str, *, healthy: bool) -> list[Finding]:
    """Train a case, and return all findings but notes."""
    process = Process("torch")
    with process.watched(load(trainer)):
        script.main(case, healthy)
    return [each for each in process.findings() if each.severity is not Severity.INFO]


def shown(found: list[Finding]) -> str:
    """Return names and places of findings, in one line."""
    every = [f"{f.severity.name[0]}:{f.name}@{Path(f.location or '-').name}" for f in found]
    return " ".join(every) or "-"


def main() -> int:
    """Run the cases, print a line for each, and return the exit code."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("trainer", choices=sorted(SCRIPTS))
    parser.add_argument("--only", default="", metavar="NAME,...")
    options = parser.parse_args()
    sys.path.insert(0, str(BENCH / "trainers"))
    script = importlib.import_module(SCRIPTS[options.trainer])
    expected = json.loads((BENCH / "expected.json").read_text("utf-8"))
    cases = [name for name in options.only.split(",") if name] or list(script.CASES)
    named = alarms = 0
    for case in cases:
        faulty = findings(script, options.trainer, case, healthy=False)
        is_named = any(each.name in expected[case] for each in faulty)
        twin = findings(script, options.trainer, case, healthy=True)
        is_alarm = any(each.severity is Severity.ERROR for each in twin)
        named, alarms = named + is_named, alarms + is_alarm
        print(f"{case:22} {'named ' if is_named else 'MISSED'} {shown(faulty)}", flush=True)
        print(f"{'':22} {'ERROR ' if is_alarm else 'twin  '} {shown(twin)}", flush=True)
    print(f"named {named} of {len(cases)}, errors on {alarms} of {len(cases)} repaired twins")
    return 0 if named == len(cases) and not alarms else 1


if __name__ == "__main__":
    sys.exit(main())
