from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from tests.reader.sampled_run import batch, store

from mothtrap.core.facts.samples import SampleBatch
from mothtrap.core.packed import pack, unpack
from mothtrap.reader.run import open_run
from mothtrap.reader.samples.sample_index import Sample

NAMES = {7: "cat/0007.png", 8: "dog/0008.png"}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    steps = {
        0: [batch([7, 8])],
        1: [batch([8, 9]), batch([7], data=1)],
        2: [batch([3, 4], data=None, sets=pack([0, 1]))],
    }
    return store(tmp_path / "run", steps, names=NAMES)


def test_a_step_tells_its_samples_row_by_row(path: Path) -> None:
    [step] = open_run(path).samples.at(0)
    assert (step.step, step.worker, step.attempt, step.left_out) == (0, 1, 1, 0)
    [told] = step.batches
    assert told.samples == (Sample(0, 7, "cat/0007.png"), Sample(0, 8, "dog/0008.png"))
    assert [seen.kind for seen in told.data] == ["a.Folder"]


def test_only_the_samples_of_steps_that_are_wanted_are_looked_at(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    looked_at = []
    monkeypatch.setattr(
        "mothtrap.reader.samples.sample_index.unpack",
        lambda text: looked_at.append(text) or unpack(text),
    )
    found = list(open_run(path).samples.among([2]))
    assert [step.step for step in found] == [2]
    assert pack([3, 4]) in looked_at
    assert pack([8, 9]) not in looked_at


def test_rows_of_several_data_sets_are_told_apart(path: Path) -> None:
    samples = open_run(path).samples
    assert samples.at(1)[0].batches[1].samples == (Sample(1, 7),)
    [told] = samples.at(2)[0].batches
    assert told.samples == (Sample(0, 3), Sample(1, 4))
    assert [seen.data for seen in told.data] == [0, 1]
    assert [seen.data for seen in samples.data()] == [0, 1]


def test_a_view_of_some_steps_shows_only_those(path: Path) -> None:
    run = open_run(path).range(1, 2)
    assert [step.step for step in run.samples.steps()] == [1]
    assert run.samples.at(0) == ()
    # The view also has the names that were reported before it began.
    assert run.samples.at(1)[0].batches[0].samples[0].name == "dog/0008.png"


@pytest.mark.parametrize(
    ("wanted", "steps"),
    [
        ("0008.png", [0, 1]),
        ("dog/0008.png", [0, 1]),
        ("/d/dog/0008.png", [0, 1]),
        ("008.png", []),
        ("7", [0, 1]),
        ("9", [1]),
        ("-1", []),
        ("", []),
    ],
)
def test_a_sample_is_found_by_name_or_index(path: Path, wanted: str, steps: list[int]) -> None:
    found = open_run(path).samples.seen(wanted)
    assert [step.step for step, _ in found] == steps


def test_digests_that_are_those_of_an_earlier_step_are_filled_in(tmp_path: Path) -> None:
    digests = np.array([1, 2**63 + 5], np.uint64)
    first = SampleBatch(rows=2, digests=pack(digests.view(np.int64).tolist()))
    other = SampleBatch(rows=1, digests=pack([9]))
    steps = {
        0: [first],
        1: [SampleBatch(rows=2, same_as=0)],
        2: [SampleBatch(rows=2, same_as=0), other],
        3: [SampleBatch(rows=2, same_as=0)],
        4: [SampleBatch(rows=1, same_as=2)],
    }
    samples = open_run(store(tmp_path / "run", steps)).samples
    names = [[s.digest for b in step.batches for s in b.samples] for step in samples.steps()]
    both = ["0000000000000001", "8000000000000005"]
    ninth = "0000000000000009"
    assert names == [both, both, [*both, ninth], [], [ninth]]
    assert [step.step for step, _ in samples.seen(both[1])] == [0, 1, 2]


def test_samples_are_no_observations_that_opening_reads(path: Path) -> None:
    run = open_run(path)
    kinds = {type(o).__name__ for view in run._span.views(1) for o in view.observations}
    assert kinds == {"DataSeen"}
    # Readers of whole records do get them.
    records = [type(o).__name__ for record in run.records(1) for o in record.observations]
    assert records.count("SamplesTaken") == 3


def test_a_damaged_text_costs_that_step_alone(tmp_path: Path) -> None:
    path = store(tmp_path / "run", {0: [batch([1])], 1: [batch([2])]})
    run = open_run(path)
    [view] = run._span.views(1)
    view._samples[1] = view._samples[1][:-3]
    assert [step.step for step in run.samples.steps()] == [1]
    assert any("samples of 1 steps are damaged" in text for text in view.damage(ended=True))


def test_what_is_printed_of_samples_is_short(path: Path) -> None:
    samples = open_run(path).samples
    [step] = samples.at(0)
    many = repr(step)
    assert many.startswith("<StepSamples step 0, rank 1, ")
    assert len(many) < 120
    assert repr(step.batches[0]).startswith("<BatchOfSamples of ")
    assert repr(samples.seen("0008.png")).startswith("((<StepSamples step 0, rank 1, ")
