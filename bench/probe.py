"""Evaluates `mothtrap.probe` on planted weaknesses, on noise, on bundled tables, and by time.

python bench/probe.py [--part planted] [--seeds 5] [--only 01,07] [--again] [--noise 200]

Each result is stored as soon as it is known, and is not computed again without `--again`.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from pathlib import Path
from typing import Any

os.environ["MOTHTRAP_DISABLE"] = "1"  # nothing is stored
for _library in ("OMP", "OPENBLAS", "MKL"):  # threads wait for each other on a busy machine
    os.environ.setdefault(f"{_library}_NUM_THREADS", "1")

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parents[1]))

import mothtrap  # noqa: E402  # after the settings
from bench.probing import (  # noqa: E402
    assertions,
    corrections,
    inside,
    later,
    residuals,
    security,
    segments,
    sensitivity,
    trained,
    unplanted,
)
from bench.probing.case import CASES, Case, is_named  # noqa: E402

# They register their cases.
assert all((assertions, corrections, inside, later, residuals, security, segments, sensitivity))
assert trained

Kept = dict[str, Any]


def planted(name: str, seed: int) -> dict[str, Any]:
    """Return whether a case was named, and the false warnings of its healthy twin."""
    begun = time.process_time()
    row: dict[str, Any] = {}
    for healthy in (False, True):
        case = CASES[name](seed, healthy)
        given = {"budget_s": 3600.0, **case.extras}  # a busy machine takes minutes
        report = mothtrap.probe(case.predict, case.X, case.y, seed=seed, **given)
        failed = [each for each in report.statuses if each.state == "rule_failed"]
        assert not failed, failed
        told = [f"{f.code} {f.severity} {f.message}" for f in report.findings]
        if healthy:
            row["false"] = _false(case, report)
        elif case.codes or case.is_found:
            row["named"] = is_named(case, report)
            if not row["named"]:
                row["instead"] = told
    return {**row, "cpu_s": round(time.process_time() - begun, 1)}


def _false(case: Case, report: Any) -> list[str]:
    """Return the warnings of a healthy twin, and notes with the planted code.

    A weak segment is a note where it is hard for all models: that is true of a healthy model, too.
    """
    found = []
    for each in report.findings:
        is_planted = each.code in case.codes and each.code != "BEH201"
        if each.severity != "info" or is_planted:
            found.append(f"{each.code} {each.severity} {each.message}")
    if case.is_found is not None and case.is_found(report):
        found.append("the planted weakness was found")
    return found


def planted_all(kept: Kept, path: Path, seeds: int, only: tuple[str, ...], again: bool) -> None:
    """Evaluate the cases, seed by seed, so that each case has a result early."""
    results = kept.setdefault("planted", {})
    for seed in range(seeds):
        for name in sorted(CASES):
            if only and not name.startswith(only):
                continue
            mine = results.setdefault(name, {})
            if str(seed) in mine and not again:
                continue
            mine[str(seed)] = row = planted(name, seed)
            _write(kept, path)
            print(name, seed, json.dumps(row), flush=True)
    print(summary(results))


def summary(results: dict[str, dict[str, Any]]) -> str:
    """Return recall and false warnings as text."""
    rows = [(name, row) for name, each in results.items() for row in each.values()]
    named = [row["named"] for _, row in rows if "named" in row]
    false = [len(row["false"]) for _, row in rows]
    weak = sorted({name for name, row in rows if row.get("named") is False or row["false"]})
    return (
        f"{sum(named)} of {len(named)} planted weaknesses named; {sum(false)} false warnings on "
        f"{len(false)} healthy twins; {sum(row['cpu_s'] for _, row in rows):.0f} CPU seconds; "
        f"not clean: {', '.join(weak) or 'none'}"
    )


def tables(kept: Kept) -> str:
    """Return the kept results as tables of the documentation."""
    lines = ["| case | named | false warnings | CPU seconds |", "|---|---|---|---|"]
    for name, each in sorted(kept.get("planted", {}).items()):
        rows = list(each.values())
        known = [row["named"] for row in rows if "named" in row]
        share = f"{sum(known)}/{len(known)}" if known else ""
        false = f"{sum(len(row['false']) for row in rows)}/{len(rows)}"
        seconds = sum(row["cpu_s"] for row in rows) / (2 * len(rows))
        lines.append(f"| {name} | {share} | {false} | {seconds:.1f} |")
    lines += ["", "| table | model | warnings | notes |", "|---|---|---|---|"]
    for row in kept.get("bundled", []):
        notes = ", ".join(each.split()[0] for each in row["notes"])
        loud = "; ".join(row["warnings"])
        lines.append(f"| {row['table']} | {row['model']} | {loud} | {notes} |")
    return "\n".join(lines)


def noise_all(kept: Kept, path: Path, runs: int, again: bool) -> None:
    """Count the runs on pure noise that have any finding."""
    results = kept.setdefault("noise", {})
    for seed in range(runs):
        if str(seed) in results and not again:
            continue
        results[str(seed)] = found = unplanted.on_noise(seed)
        _write(kept, path)
        if found:
            print("noise", seed, found, flush=True)
    print(f"{sum(map(bool, results.values()))} of {len(results)} runs on noise have a finding")


def _write(kept: Kept, path: Path) -> None:
    beside = path.with_suffix(".part")
    beside.write_text(json.dumps(kept, indent=1) + "\n")
    beside.replace(path)


def main() -> None:
    """Run one part, or all of them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--noise", type=int, default=200, help="runs on noise")
    parser.add_argument("--only", default="", help="beginnings of cases")
    parser.add_argument("--part", default="", help="planted, bundled, speed or noise alone")
    parser.add_argument("--tables", action="store_true", help="show the kept results, and end")
    parser.add_argument("--again", action="store_true", help="replace results that are kept")
    parser.add_argument("--keep", type=Path, default=Path("bench/probing/results.json"))
    asked = parser.parse_args()
    kept = json.loads(asked.keep.read_text()) if asked.keep.exists() else {}
    if asked.tables:
        print(tables(kept), summary(kept.get("planted", {})), sep="\n\n")
        return
    parts = [asked.part] if asked.part else ["planted", "bundled", "speed", "noise"]
    if "planted" in parts:
        only = tuple(filter(None, asked.only.split(",")))
        planted_all(kept, asked.keep, asked.seeds, only, asked.again)
    if "bundled" in parts:
        kept["bundled"] = []
        for row in unplanted.bundled():
            kept["bundled"].append(row)
            print(json.dumps(row), flush=True)
        _write(kept, asked.keep)
    if "speed" in parts:
        kept["speed"] = unplanted.speed()
        print(json.dumps(kept["speed"]))
        _write(kept, asked.keep)
    if "noise" in parts:
        noise_all(kept, asked.keep, asked.noise, asked.again)


if __name__ == "__main__":
    main()
