"""A ladder: faults of growing strength, and the damage that each does to the score.

Each of 38 families makes one program of `bench/rungs` worse in six strengths. Eight healthy
runs of the program, with other seeds, show how much its score varies. The damage of a rung is the
difference between its score and their mean, in standard deviations. A fault is named when a root
finding of warning or worse bears a rule of its family.

Run: python bench/ladder.py [--only FAMILY,...] [--results FILE] [--table]
Rungs in the results file are not run again.
"""

from __future__ import annotations

import argparse
import json
import math
import re
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

if __package__ in (None, ""):
    sys.path.insert(0, str(Path(__file__).parents[1]))

from bench.runs_of_programs import PYTHON, TIMEOUT_S, Outcome, Program, run

HERE = Path(__file__).parent
RUNGS = HERE / "rungs"
RESULTS = HERE / "ladder.json"
HEALTHY_SEEDS = range(8)
GREAT, SMALL = 2.0, 0.5
"""Damage, in standard deviations of healthy runs, that must be named, and that is harmless."""
NAMED_SHARE, ERROR_SHARE = 0.9, 0.01
LEAST_SPREAD = 0.002
"""Minimum standard deviation, as a share of the mean: some programs hardly vary with the seed."""


@dataclass(frozen=True, kw_only=True)
class Family:
    """A fault: the program and its option, the strengths, and the rules that name it."""

    program: str
    option: str
    strengths: tuple[float, ...]
    rules: tuple[str, ...]

    @property
    def sinks(self) -> bool:
        """Return whether damage lowers the score, as for an accuracy, or for a misleading loss."""
        return self.program in ("classify", "steep", "recipe") or self.option == "leaked"

    def rungs(self) -> list[tuple[str, Program]]:
        """Return a name and a program for each strength."""
        script = (RUNGS / f"{self.program}.py").resolve()
        return [
            (f"{self.option} {one:g}", Program(script=script, seed=100, options=_given(self, one)))
            for one in self.strengths
        ]


def _given(family: Family, strength: float) -> tuple[str, str]:
    return f"--{family.option}", f"{strength:g}"


def _family(program: str, option: str, strengths: Sequence[float], *rules: str) -> Family:
    return Family(program=program, option=option, strengths=tuple(strengths), rules=rules)


FAMILIES = (
    _family("classify", "lr", (2, 5, 10, 30, 100, 300), "learning_rate_too_high", "update_ratio"),
    _family("classify", "slow", (3, 10, 30, 100, 300, 1000), "learning_rate_too_low"),
    _family(
        "classify",
        "noise",
        (0.05, 0.1, 0.2, 0.3, 0.45, 0.6),
        *("wrong_training_labels", "labels_unrelated", "overfit", "overtraining"),
    ),
    _family("classify", "dropout", (0.5, 0.7, 0.8, 0.9, 0.95, 0.98), "excessive_dropout"),
    _family("classify", "inputs", (3, 10, 30, 100, 255, 1000), "unnormalized_input"),
    _family("classify", "eval-inputs", (1.5, 3, 10, 30, 100, 255), "train_eval_shift"),
    _family("classify", "frozen", (0.1, 0.3, 0.5, 0.7, 0.9, 0.98), "frozen_parameters"),
    _family(
        "classify",
        "decay",
        (0.01, 0.1, 1, 10, 30, 100),
        *("weight_decay_dominates", "weight_collapse"),
    ),
    _family("classify", "gain", (2, 4, 8, 16, 32, 64), "poor_initialization", "wrong_initial_loss"),
    _family(
        "classify",
        "factor",
        (1e-2, 1e-4, 1e-5, 1e-6, 1e-7, 1e-8),
        *("vanishing_gradient", "epsilon_too_large", "epsilon_underflow", "gradient_underflow"),
    ),
    _family("steep", "depth", (2, 3, 4, 6, 9, 14), "vanishing_gradient", "saturated_activation"),
    _family("steep", "clip", (1, 0.1, 0.01, 1e-3, 1e-4, 1e-5), "clipping_every_step"),
    _family(
        "steep",
        "micro",
        (2, 4, 8, 16, 32, 64),
        *("accumulation_not_averaged", "learning_rate_too_high"),
    ),
    _family("steep", "stats", (0.05, 0.02, 0.01, 3e-3, 1e-3, 1e-4), "batchnorm_averages_lag"),
    _family("steep", "repeated", (0.2, 0.4, 0.6, 0.8, 0.95, 1), "rows_not_drawn_again"),
    _family("table", "leaked", (0.05, 0.1, 0.2, 0.4, 0.7, 1), "train_eval_overlap"),
    _family("table", "epochs", (10, 15, 20, 30, 45, 60), "overfit", "overtraining"),
    _family("regress", "targets", (10, 30, 100, 300, 1000, 1e4), "unscaled_targets"),
    _family("encode", "kl", (2, 5, 10, 30, 100, 300), "posterior_collapse"),
    _family(
        "boost",
        "rate",
        (0.5, 0.8, 1.2, 1.6, 2, 3),
        *("boosting_rate_too_high", "overfit", "overtraining", "stopped_too_late"),
    ),
    _family(
        "recipe",
        "warm-up",
        (0.3, 1, 3, 10, 30, 100),
        *("schedule_at_wrong_pace", "learning_rate_too_low"),
    ),
    _family("recipe", "average", (0.9, 0.99, 0.997, 0.999, 0.9997, 0.9999), "averaged_weights_lag"),
    _family("recipe", "weight", (3, 10, 30, 100, 300, 1000), "class_weights_inverted"),
    _family(
        "recipe",
        "rare",
        (0.3, 0.1, 0.05, 0.02, 0.01, 0.001),
        *("class_imbalance", "unseen_classes"),
    ),
    _family(
        "recipe",
        "merged",
        (0.1, 0.3, 0.5, 0.7, 0.9, 1),
        *("class_lost_in_evaluation", "confusion", "class_imbalance", "unseen_classes"),
    ),
    _family("recipe", "shrink", (0.5, 0.2, 0.1, 0.03, 0.01, 1e-3), "poor_initialization"),
    _family(
        "recipe",
        "swapped",
        (0.05, 0.1, 0.2, 0.4, 0.6, 0.9),
        *("wrong_training_labels", "labels_unrelated", "memorized_rows"),
    ),
    _family(
        "recipe",
        "momentum",
        (0.95, 0.98, 0.99, 0.995, 0.999, 0.9999),
        *("learning_rate_too_high", "loss_diverging"),
    ),
    _family("classify", "smooth", (0.1, 0.3, 0.5, 0.7, 0.9, 0.98)),
    _family("classify", "width", (32, 8, 4, 3, 2, 1), "narrow_layer"),
    _family(
        "classify",
        "eval-lost",
        (0.05, 0.1, 0.2, 0.4, 0.6, 0.8),
        *("eval_columns_differ", "train_eval_shift"),
    ),
    _family(
        "classify",
        "eval-shift",
        (0.2, 0.5, 1, 2, 5, 20),
        *("eval_columns_differ", "train_eval_shift"),
    ),
    _family("steep", "stale", (2, 4, 8, 16, 32, 100), "stale_gradient"),
    _family(
        "recipe",
        "gamma",
        (0.9, 0.7, 0.5, 0.2, 0.1, 0.01),
        *("learning_rate_zero", "learning_rate_too_low", "schedule_at_wrong_pace"),
    ),
    _family(
        "regress",
        "placeholder",
        (0.001, 0.01, 0.05, 0.1, 0.3, 0.6),
        *("unnormalized_input", "missing_value_coded"),
    ),
    _family(
        "recipe",
        "penalty",
        (1e-5, 1e-4, 1e-3, 0.01, 0.1, 1),
        *("weight_decay_dominates", "weight_collapse", "loss_swamped"),
    ),
    _family(
        "steep",
        "few",
        (25, 16, 8, 5, 3, 2),
        *("batchnorm_tiny_batch", "learning_rate_too_high", "loss_oscillating"),
    ),
    _family("boost", "child", (10, 30, 60, 100, 150, 200), "tree_not_growing"),
)


def score_of(printed: str) -> float:
    """Return the score that a program printed last; NaN if it printed no score."""
    found = re.findall(r"^score=(\S+)$", printed, flags=re.MULTILINE)
    return float(found[-1]) if found else math.nan


def healthy_scores(program: str) -> list[float]:
    """Run a program without a fault once for each seed, without mothtrap."""
    script = str(RUNGS / f"{program}.py")
    scores = []
    for seed in HEALTHY_SEEDS:
        words = [PYTHON, script, "--seed", str(seed)]
        done = subprocess.run(words, capture_output=True, text=True, timeout=TIMEOUT_S, check=True)
        scores.append(score_of(done.stdout))
    return scores


def summary(outcome: Outcome) -> dict[str, Any]:
    """Return the stored summary of the run of a rung."""
    return {
        "score": score_of(outcome.printed),
        "roots": [[f["severity"], f["name"]] for f in outcome.roots],
        "errors": sorted({f["name"] for f in outcome.findings("error")}),
        "trouble": outcome.error,
    }


def damage(score: float, healthy: Sequence[float], *, sinks: bool) -> float:
    """Return how much worse a score is than healthy ones, in standard deviations; inf for NaN."""
    mean = statistics.fmean(healthy)
    spread = max(statistics.stdev(healthy), LEAST_SPREAD * abs(mean))
    if math.isnan(score):
        return math.inf
    return max(0.0, (mean - score if sinks else score - mean) / spread)


@dataclass(frozen=True, kw_only=True)
class Rung:
    """A strength of a family, with its damage and verdict."""

    family: Family
    name: str
    damage: float
    roots: tuple[tuple[str, str], ...]
    errors: tuple[str, ...]

    @property
    def is_named(self) -> bool:
        """Return whether a root finding bears a rule of the family."""
        return any(name in self.family.rules for _, name in self.roots)


def rungs(results: dict[str, Any]) -> list[Rung]:
    """Return the rungs of the results."""
    found = []
    for family in FAMILIES:
        for name, _ in family.rungs():
            kept = results["rungs"].get(f"{family.program} {name}")
            healthy = results["healthy"].get(family.program)
            if kept is None or healthy is None or kept["trouble"]:
                continue
            found.append(
                Rung(
                    family=family,
                    name=name,
                    damage=damage(kept["score"], healthy, sinks=family.sinks),
                    roots=tuple((severity, name) for severity, name in kept["roots"]),
                    errors=tuple(kept["errors"]),
                )
            )
    return found


def totals(found: Sequence[Rung]) -> tuple[str, bool]:
    """Return the totals in words, and whether both targets are met."""
    great = [rung for rung in found if rung.damage > GREAT]
    named = sum(rung.is_named for rung in great)
    small = [rung for rung in found if rung.damage < SMALL]
    errors = sum(bool(rung.errors) for rung in small)
    text = (
        f"above {GREAT:g} standard deviations: named {named} of {len(great)}\n"
        f"below {SMALL:g} of one: errors in {errors} of {len(small)}"
    )
    met = named >= NAMED_SHARE * len(great) and errors <= ERROR_SHARE * len(small)
    return text, met


def table(found: Sequence[Rung]) -> str:
    """Return the table of the ladder, as Markdown: the damage of each rung, and the rule that names
    it."""
    rows = ["| fault | program | strength: damage |", "|---|---|---|"]
    for family in FAMILIES:
        cells = [_cell(rung) for rung in found if rung.family is family]
        if cells:
            rows.append(f"| {family.option} | {family.program} | {'; '.join(cells)} |")
    return "\n".join(rows)


def _cell(rung: Rung) -> str:
    strength = rung.name.rpartition(" ")[2]
    size = f"{rung.damage:.1f}" if rung.damage < 1000 else "> 999"
    mark = "**named**" if rung.is_named else ", ".join(name for _, name in rung.roots) or "-"
    return f"{strength}: {size} {mark}"


def main(argv: Sequence[str] | None = None) -> int:
    """Run missing rungs, print the table, and return the exit code."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--only", default="", metavar="FAMILY,...")
    parser.add_argument("--results", type=Path, default=RESULTS, metavar="FILE")
    parser.add_argument("--table", action="store_true", help="run nothing")
    chosen = parser.parse_args(argv)
    only = [name for name in chosen.only.split(",") if name]
    results: dict[str, Any] = {"healthy": {}, "rungs": {}}
    if chosen.results.exists():
        results = json.loads(chosen.results.read_text(encoding="utf-8"))
    for family in FAMILIES if not chosen.table else ():
        if not only or family.option in only:
            fill(results, family, chosen.results)
    found = rungs(results)
    text, met = totals(found)
    print(f"{table(found)}\n\n{text}")
    return 0 if met else 1


def fill(results: dict[str, Any], family: Family, file: Path) -> None:
    """Run the healthy programs and the rungs of a family that are missing; keep each result."""
    if family.program not in results["healthy"]:
        results["healthy"][family.program] = healthy_scores(family.program)
        _keep(results, file)
    for name, program in family.rungs():
        key = f"{family.program} {name}"
        if key in results["rungs"]:
            continue
        with tempfile.TemporaryDirectory() as scratch:
            results["rungs"][key] = summary(run(program, Path(scratch)))
        _keep(results, file)
        print(key, results["rungs"][key], file=sys.stderr, flush=True)


def _keep(results: dict[str, Any], file: Path) -> None:
    file.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())
