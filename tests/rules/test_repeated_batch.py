from __future__ import annotations

import msgspec
import pytest
from tests.rules.windows import window

from mothtrap.core.errors import NotApplicable, NotEnoughData
from mothtrap.core.facts.data import BatchesLoaded, OneBatchUsed
from mothtrap.core.findings import Finding, Severity
from mothtrap.rules.repeated_batch import RepeatedBatch


def passed(repeated: int, sampler: str = "shuffled", workers: int = 0, **more) -> BatchesLoaded:
    options = {"loader": "loader 1", "pass_number": 1, "batches": 20, "location": "train.py:7"}
    return BatchesLoaded(
        step=9, repeated=repeated, sampler=sampler, workers=workers, **{**options, **more}
    )


def check(*parts: BatchesLoaded) -> list[Finding]:
    return RepeatedBatch().check(window(*parts))


@pytest.mark.parametrize(
    "faulty",
    [
        passed(3),
        passed(10, "sequential"),
        passed(10, "iterable", workers=2),
        passed(4, batches=9, ended=False),
    ],
)
def test_fires_where_every_sample_should_come_once(faulty: BatchesLoaded) -> None:
    [finding] = check(faulty)
    assert (finding.severity, finding.location) == (Severity.ERROR, "train.py:7")
    assert f"{faulty.repeated} of {faulty.batches} batches" in finding.message


def test_says_what_the_workers_do() -> None:
    [finding] = check(passed(10, "iterable", workers=2))
    assert "its 2 workers read the same stream" in finding.message


@pytest.mark.parametrize(
    "healthy",
    [passed(0), passed(2), passed(15, batches=2000), passed(0, "iterable", workers=4)],
)
def test_quiet_on_passes_that_give_a_batch_once(healthy: BatchesLoaded) -> None:
    assert check(healthy) == []


@pytest.mark.parametrize("sampler", ["with_replacement", "own", "iterable"])
def test_does_not_apply_to_loaders_that_may_repeat(sampler: str) -> None:
    with pytest.raises(NotApplicable):
        check(passed(18, sampler))


def test_warns_of_a_stream_that_gives_one_batch_only() -> None:
    [finding] = check(passed(7, "iterable", batches=8, location="train.py:3"))
    assert (finding.severity, finding.location) == (Severity.WARNING, "train.py:3")
    assert "the same batch 8 times in a row" in finding.message
    assert not any("worker" in fix for fix in finding.fixes)
    with pytest.raises(NotApplicable):
        check(passed(6, "iterable", batches=8))


def test_a_large_batch_is_a_note_unless_the_script_holds_more_rows() -> None:
    [finding] = check(passed(7, "iterable", batches=8, rows=100))
    assert finding.severity is Severity.INFO
    [finding] = check(passed(7, "iterable", batches=8, rows=100, source="x", of_rows=5000))
    assert finding.severity is Severity.WARNING
    assert finding.message.endswith("only on this batch of 100 rows, although `x` has 5000 rows")


def test_waits_for_a_pass() -> None:
    with pytest.raises(NotEnoughData):
        RepeatedBatch().check(window(steps=5))


def test_thresholds() -> None:
    assert RepeatedBatch(batches=11).check(window(passed(10))) == []
    assert RepeatedBatch(share=0.6).check(window(passed(10))) == []


def test_equal_rows_in_the_data_are_no_error_of_the_workers() -> None:
    some = passed(8, "iterable", workers=4, batches=40)
    assert check(some) == []
    assert check(passed(30, "iterable", workers=4, batches=40)) != []


def test_single_rows_that_are_equal_lie_in_the_data() -> None:
    with pytest.raises(NotApplicable):
        check(passed(8, "sequential", batches=40, rows=1))
    assert check(passed(8, "sequential", batches=40, rows=2)) != []


@pytest.mark.parametrize(("rows", "severity"), [(32, Severity.WARNING), (500, Severity.INFO)])
def test_a_stream_that_gives_one_batch_all_the_time(rows: int, severity: Severity) -> None:
    """A large batch may be all the data there are."""
    [finding] = check(passed(7, "iterable", batches=8, rows=rows))
    assert (finding.severity, finding.evidence["batches"]) == (severity, 8)


def test_equal_rows_of_evaluation_data_are_a_note() -> None:
    seen = BatchesLoaded(
        step=9,
        loader="loader 2",
        sampler="sequential",
        workers=0,
        pass_number=1,
        batches=20,
        repeated=10,
        rows=32,
        ended=True,
        trained=False,
    )
    [note] = RepeatedBatch().check(window(seen))
    assert note.severity is Severity.INFO
    assert "the evaluation data contain equal rows" in note.message
    [error] = RepeatedBatch().check(window(msgspec.structs.replace(seen, trained=True)))
    assert error.severity is Severity.ERROR


def test_a_step_that_cuts_the_same_rows_out_of_its_data_is_named() -> None:
    used = OneBatchUsed(
        step=40,
        loader="train_step",
        steps=16,
        unused=0,
        first_step=1,
        rows=64,
        of_rows=2048,
        location="train.py:9",
    )
    [finding] = RepeatedBatch().check(window(used))
    assert (finding.severity, finding.location) == (Severity.WARNING, "train.py:9")
    assert finding.message == (
        "`train_step` gets 2048 rows, but trained on the same 64 of them in 16 inspected steps"
    )


def test_one_batch_for_ever_is_an_error() -> None:
    used = OneBatchUsed(step=40, loader="loader 1", steps=32, unused=40, first_step=9)
    [finding] = RepeatedBatch().check(window(used))
    assert (finding.severity, finding.step) == (Severity.ERROR, 9)
    assert "which returned 40 other batches that were not used" in finding.message
    assert finding.fixes[0].startswith("Call the model with the batch of the loop")


def test_indices_that_are_drawn_twice_are_named() -> None:
    [finding] = check(passed(10, other_indices=0, rows=8))
    assert finding.severity is Severity.WARNING
    assert "because the same indices are drawn again" in finding.message
    assert finding.fixes[0].startswith("Remove indices and files that are listed twice")


def test_a_dataset_that_ignores_its_index_is_named() -> None:
    [finding] = check(passed(10, other_indices=10, rows=8))
    assert finding.severity is Severity.WARNING
    assert "the dataset returns equal rows" in finding.message
    assert finding.fixes[0].startswith("Check `__getitem__`")
    [worse] = check(passed(19, other_indices=19, rows=8))
    assert worse.severity is Severity.ERROR


def test_batches_of_few_distinct_rows_repeat_by_chance() -> None:
    with pytest.raises(NotApplicable):
        check(passed(60, batches=200, other_indices=60, rows=4, equal_rows=0.25))
    assert check(passed(60, batches=200, other_indices=60, rows=16, equal_rows=0.25))


def test_advice_on_workers_is_given_to_streams_only() -> None:
    [loader], [stream] = check(passed(10)), check(passed(10, "iterable", workers=2))
    assert not any("worker" in fix for fix in loader.fixes)
    assert "worker" in stream.fixes[0]


def test_an_argument_cut_at_the_same_place_is_named() -> None:
    again = OneBatchUsed(
        step=30,
        loader="update",
        steps=16,
        unused=0,
        first_step=1,
        rows=128,
        of_rows=60000,
        source="train_images",
    )
    [finding] = RepeatedBatch().check(window(again))
    assert finding.severity is Severity.WARNING
    assert finding.message == (
        "`update` trained on the same batch of 128 rows as in the step before in 16 steps, "
        "although `train_images` has 60000 rows"
    )
    assert finding.fixes[0].startswith("Let the slice depend on the step")
    anew = msgspec.structs.replace(again, of_rows=0, unused=468, source="train_ds")
    [finding] = RepeatedBatch().check(window(anew))
    assert "the first of 469 batches of `train_ds`, which is iterated anew" in finding.message
    assert finding.fixes[0].startswith("Create the iterator once")
