"""One thing is done differently in one of two trainings, and is found as the first difference."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import chdir
from dataclasses import dataclass
from pathlib import Path

import pytest
from click.testing import CliRunner
from tests.harness.running import FULL, PYTHON, environment, observed, run

from mothtrap.cli import main

PROGRAM = Path(__file__).with_name("training.py")
BACKWARD = 1 + next(
    number
    for number, line in enumerate(PROGRAM.read_text(encoding="utf-8").splitlines())
    if "loss.backward()" in line
)
LOSS = f"loss:training.py:{BACKWARD} AdamW"
Trained = Callable[..., Path]


@dataclass(frozen=True)
class Planted:
    """Planted difference: the program's options, and the expected place and kind of the finding."""

    options: tuple[str, ...]
    step: int
    what: str
    cause: str
    words: str = ""
    without: tuple[str, ...] = ()
    setting: str = ""

    @property
    def name(self) -> str:
        return "-".join(word.lstrip("-") for word in self.options) + self.setting


CASES = [
    Planted(("swapped-sample",), 13, "batch:loader 1.0", "data order", "steps 13 to 20"),
    Planted(("other-sample",), 13, "batch:loader 1.0", "data", "1 of 60 batches"),
    Planted(("other-label",), 13, "batch:loader 1.1", "data", "1 of 60 batches"),
    Planted(("other-order",), 0, "batch:loader 1.0", "data order", "a different order"),
    Planted(
        ("--shuffle", "2"),
        0,
        "batch:loader 1.0",
        "data order",
        "the samplers select different samples",
        without=("--shuffle", "1"),
    ),
    Planted(
        ("extra-draw",), 17, "rng.torch", "random numbers", "before the forward pass of step 17"
    ),
    Planted(("dropout-seed",), 0, "rng.torch", "random numbers", "a different seed"),
    Planted(("ulp",), 0, "weight:3.weight", "initialisation", "1 of 4"),
    Planted(("other-initialisation",), 0, "weight:0.weight", "initialisation", "4 of 4"),
    Planted(("buffer",), 0, "buffer:0.scale", "code", "only the second run"),
    Planted(("rate",), 50, "lr:AdamW", "configuration", "the learning rate is 0.01"),
    Planted(("loss",), 0, LOSS, "code", "computed differently"),
    Planted(("bf16",), 0, LOSS, "numerics", "bfloat16"),
    Planted(("bf16",), 0, "activation:0", "numerics", "bfloat16", setting="CAPTURE=everything"),
    Planted(
        ("--augment", "--workers", "2"),
        1,
        "batch:loader 1.0",
        "configuration",
        "1 and 2 loader processes",
        without=("--augment", "--workers", "1"),
    ),
    Planted(("decay",), 1, "weight:0.weight", "configuration", "weight_decay"),
    Planted(("gradient",), 9, "gradient:0.weight", "numerics", setting="DIGESTS=true"),
]


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Trained:
    """Return a function that trains with some options, once, and returns the run."""
    folder = tmp_path_factory.mktemp("runs")

    def train(*options: str, setting: str = "", name: str = "") -> Path:
        path = folder / f"{name}{'-'.join(word.lstrip('-') for word in options)}-{setting}"
        if not path.exists():
            target = ["--", *PYTHON, PROGRAM, *options]
            words = observed(target, runs_dir=folder, name=path.name)
            variable, _, value = setting.partition("=")
            # All batches are compared, however slow the machine is.
            every = {"MOTHTRAP_OVERHEAD": "0"}
            env = environment(**every, **({f"MOTHTRAP_{variable}": value} if setting else {}))
            outcome = run(words, cwd=folder, env=env)
            assert outcome.returncode == 0, outcome.stderr
        return path

    return train


def diff(first: Path, second: Path, *options: str) -> tuple[int, dict]:
    with chdir(first.parent):
        words = ["diff", str(first), str(second), "--format", "json", *options]
        outcome = CliRunner().invoke(main, words)
    assert outcome.exit_code in (0, 1), outcome.output
    return outcome.exit_code, json.loads(outcome.stdout)


@pytest.mark.parametrize("case", CASES[:: 1 if FULL else 5], ids=lambda case: case.name)
def test_the_planted_difference_is_found_first(case: Planted, trained: Trained) -> None:
    plain = trained(*case.without, setting=case.setting)
    code, found = diff(plain, trained(*case.options, setting=case.setting))
    told = json.dumps(found, indent=1)
    assert code == 1
    what = found["departure"]["what"].replace(f"{PROGRAM.parent}/", "")
    assert (found["departure"]["step"], what) == (case.step, case.what), told
    assert found["cause"]["kind"] == case.cause, told
    assert case.words in " ".join((found["cause"]["sentence"], *found["cause"]["evidence"])), told


@pytest.mark.parametrize(
    "setting", ["", pytest.param("DIGESTS=true", marks=pytest.mark.full), "CAPTURE=everything"]
)
def test_equal_runs_are_the_same(setting: str, trained: Trained) -> None:
    first, second = trained(setting=setting), trained(setting=setting, name="again")
    code, found = diff(first, second)
    assert (code, found["same"], found["steps"], found["departure"]) == (0, True, 60, None)


def test_the_text_says_so(trained: Trained) -> None:
    with chdir(trained().parent):
        same = CliRunner().invoke(main, ["diff", str(trained()), str(trained(name="again"))])
        other = CliRunner().invoke(main, ["diff", str(trained()), str(trained("rate"))])
    assert same.exit_code == 0
    assert "No difference in 60 steps" in same.stdout
    assert other.exit_code == 1
    assert "First difference: step 50, lr:AdamW" in other.stdout
    assert "Likely cause: configuration" in other.stdout
