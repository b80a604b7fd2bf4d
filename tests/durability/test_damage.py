"""Damage costs only the damaged part, is reported, and never produces a wrong value."""

from __future__ import annotations

import random
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from tests.durability.small_run import STEPS, Found, SmallRun, is_part_of, read, same
from tests.store.records import record
from tests.store.test_finding_log import finding

from mothtrap.reader.run import open_run

TRIALS = 50
"""For each of the two runs and kinds of damage: 100 flips and 100 cuts in all."""


def files(run: Path) -> list[Path]:
    return sorted(path for path in run.rglob("*") if path.is_file())


def flip(path: Path, dice: random.Random) -> None:
    data = bytearray(path.read_bytes())
    data[dice.randrange(len(data))] ^= 1 << dice.randrange(8)
    path.write_bytes(data)


def cut(path: Path, dice: random.Random) -> None:
    data = path.read_bytes()
    path.write_bytes(data[: dice.randrange(len(data))])


@pytest.mark.parametrize("harm", [flip, cut])
def test_damage_in_one_file(
    harm: Callable[[Path, random.Random], None], small_run: SmallRun, copy: Callable[[], Path]
) -> None:
    dice = random.Random(f"{harm.__name__} {small_run.sealed}")
    run, touched = copy(), 0
    names = [path.relative_to(run) for path in files(run)]
    for trial in range(TRIALS):
        name = names[trial] if trial < len(names) else dice.choice(names)
        harm(run / name, dice)
        found = read(run)
        assert is_part_of(found, small_run.found), f"trial {trial}: a wrong value from {name}"
        if not same(found, small_run.found):
            touched += 1
            assert found.damage or ended_unknown(found), f"trial {trial}: {name} not named"
            assert others_are_whole(found, small_run.found, name), f"trial {trial}: {name}"
        shutil.copyfile(small_run.path / name, run / name)
    assert same(read(run), small_run.found)
    assert touched > TRIALS / 4, "most harm did none: the test proves little"


def test_a_wrong_value_would_be_seen(small_run: SmallRun) -> None:
    """The counterpart of all tests here: the comparison that they use can fail."""
    found, whole = small_run.found, small_run.found
    (first, *others), second = found.records
    for changed in (
        replace(first, summary_TF=first.summary_TF + 1e-9),
        replace(first, scalars=first.scalars[:1]),
        replace(first, key=others[-1].key),
        replace(first, defined=()),
    ):
        records = ((changed, *others), second)
        assert not is_part_of(replace(found, records=records), whole)
    assert not is_part_of(replace(found, raw=({(0, 0): b"x"}, {})), whole)
    assert not is_part_of(replace(found, findings=(finding("GRD109"),)), whole)
    assert is_part_of(replace(found, records=((), second), info=None), whole)


def ended_unknown(found: Found) -> bool:
    """A stream of events cut between two batches looks like that of a worker killed then."""
    return any(not items or items[-1].key.step < STEPS for items in found.records)


def others_are_whole(found: Found, whole: Found, damaged: Path) -> bool:
    """Return whether the other worker's steps and tensors, and its findings, are all there."""
    spared = [worker for worker in (0, 1) if f"w{worker}" not in damaged.parts]
    return all(
        len(found.records[worker]) == len(whole.records[worker])
        and found.raw[worker] == whole.raw[worker]
        for worker in spared
    )


def test_damage_in_many_files(small_run: SmallRun, copy: Callable[[], Path]) -> None:
    dice = random.Random(7)
    for _ in range(10):
        run = copy()
        for path in dice.sample(files(run), 8):
            dice.choice([flip, cut, lambda path, _: path.unlink()])(path, dice)
        assert is_part_of(read(run), small_run.found)


def test_a_file_that_was_deleted(small_run: SmallRun, copy: Callable[[], Path]) -> None:
    run = copy()
    lost = 0
    for path in files(run):
        name = path.relative_to(run)
        path.unlink()
        found = read(run)
        assert is_part_of(found, small_run.found), name
        assert others_are_whole(found, small_run.found, name)
        if not same(found, small_run.found):
            lost += 1
            gone = name.name in ("run.json", "end.json")
            findings = name.name.startswith("findings")
            assert found.damage or ended_unknown(found) or gone or findings, name
        shutil.copyfile(small_run.path / name, path)
    assert lost > 10


def test_a_folder_of_a_worker_that_was_deleted(
    small_run: SmallRun, copy: Callable[[], Path]
) -> None:
    run = copy()
    shutil.rmtree(run / "1" / "w1")
    found = read(run)
    assert is_part_of(found, small_run.found)
    assert len(found.records[0]) == STEPS + 1
    assert open_run(run).workers == (0,)


def test_the_reader_of_runs_names_damage_and_gives_the_rest(
    small_run: SmallRun, copy: Callable[[], Path]
) -> None:
    """Damage named by the store reaches whoever opens the run, and so do the remaining values."""
    losses = {step: 1.0 / (step + 1) for step in range(STEPS)}
    expected = {step: record(step).summary_TF for step in range(STEPS)}
    dice, named = random.Random(small_run.sealed), 0
    run = copy()
    kinds = ("scalars", "stats", "events")
    for trial in range(24):
        path = dice.choice(sorted((run / "1" / "w0").glob(f"{kinds[trial % 3]}-*.arrow")))
        dice.choice([flip, cut])(path, dice)
        opened = open_run(run)
        seen = 0
        for series in opened.scalars("loss"):
            pairs = zip(series.steps_S.tolist(), series.values_S.tolist(), strict=True)
            seen += sum(losses[step] == value for step, value in pairs)
            assert seen == len(series)
        matrix = opened.stats("gradient", statistics=("l2",))["l2"]
        for row, step in enumerate(matrix.steps_S.tolist()):
            for column in np.flatnonzero(matrix.present_ST[row]):
                assert matrix.values_ST[row, column] == expected[step][column, 9]
        whole = seen == STEPS and matrix.present_ST.sum() == 3 * STEPS
        assert whole or opened.damage or opened.steps < STEPS
        named += bool(opened.damage)
        shutil.copyfile(small_run.path / path.relative_to(run), path)
    assert named > 5
