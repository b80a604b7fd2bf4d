"""One rank against two that divide the same batches: equal within a tolerance."""

from __future__ import annotations

import json
from contextlib import chdir
from pathlib import Path

import pytest
from click.testing import CliRunner
from tests.harness.running import PYTHON, TORCHRUN, environment, observed, run

from mothtrap.cli import main

PROGRAM = Path(__file__).with_name("ranks.py")


def train(
    folder: Path, name: str, *arguments: str, ranks: int, options: tuple[str, ...] = ()
) -> None:
    started = (TORCHRUN, "--standalone", "--nproc-per-node", str(ranks)) if ranks > 1 else ()
    python = () if ranks > 1 else PYTHON
    words = observed(
        [*options, "--", *started, *python, PROGRAM, *arguments], runs_dir=folder, name=name
    )
    outcome = run(words, cwd=folder, env=environment(OMP_NUM_THREADS="1"))
    assert outcome.returncode == 0, outcome.stderr


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("runs")
    train(folder, "two", ranks=2)
    train(folder, "one", ranks=1)
    train(folder, "other", "other", ranks=1)
    train(folder, "rounding", ranks=1, options=("--perturb",))
    return folder


def diff(folder: Path, first: str, second: str, *options: str) -> tuple[int, dict]:
    with chdir(folder):
        words = ["diff", first, second, *options, "--runs-dir", ".", "--format", "json"]
        outcome = CliRunner().invoke(main, words)
    assert outcome.exit_code in (0, 1), outcome.output
    return outcome.exit_code, json.loads(outcome.stdout)


def test_two_ranks_and_one_with_the_same_batches_are_the_same(runs: Path) -> None:
    code, found = diff(runs, "two", "one")
    assert (code, found["departure"], found["exact"], found["steps"]) == (0, None, False, 12)
    methods = {(c["phase"], c["method"]) for c in found["compared"]}
    assert methods >= {
        ("batch", "sums of digests"),
        ("loss", "numbers"),
        ("gradients", "statistics"),
        ("weights", "statistics"),
    }
    assert "workers" in {c["what"] for c in found["conditions"]}


def test_another_row_is_found_across_numbers_of_ranks(runs: Path) -> None:
    code, found = diff(runs, "two", "other")
    divergence = found["departure"]
    assert (code, divergence["step"], divergence["what"]) == (1, 7, "rows of the batch")
    assert found["cause"]["kind"] == "data"


def test_a_perturbed_run_measures_how_near_the_numbers_must_be(runs: Path) -> None:
    code, found = diff(runs, "one", "two", "--perturbed", "rounding")
    assert (code, found["departure"], found["measured"]) == (0, None, True)
    with chdir(runs):
        words = ["diff", "one", "other", "--perturbed", "rounding", "--runs-dir", "."]
        equal = CliRunner().invoke(main, words)
        words = ["diff", "one", "two", "--perturbed", "other", "--runs-dir", "."]
        plain = CliRunner().invoke(main, words)
    assert equal.exit_code == plain.exit_code == 2
    assert "different numbers of ranks" in equal.output
    assert "was not recorded with `mothtrap run --perturb`" in plain.output


@pytest.mark.parametrize(
    ("variants", "words"),
    [
        (("summed",), "multiplied by the number of ranks (2)"),
        (("clipped", "by_hand"), "each rank clips its own gradients before they are averaged"),
    ],
)
def test_faults_that_all_workers_share_are_named(
    runs: Path, variants: tuple[str, ...], words: str
) -> None:
    name = "-".join(variants)
    train(runs, name, *variants, ranks=2)
    first, rounding = "one", "rounding"
    if "clipped" in variants:
        train(runs, first := "one-clipped", "clipped", ranks=1)
        train(runs, rounding := "rounding-clipped", "clipped", ranks=1, options=("--perturb",))
    code, found = diff(runs, first, name, "--perturbed", rounding)
    assert (code, found["departure"]["step"], found["cause"]["kind"]) == (1, 0, "workers")
    assert words in found["cause"]["sentence"]
