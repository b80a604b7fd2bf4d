from __future__ import annotations

import msgspec
import pytest
from tests.rules.windows import LOSS, loss, loss_call_of, window

from mothtrap.core.errors import NotApplicable, NotEnoughData
from mothtrap.core.facts.losses import TargetSample
from mothtrap.core.findings import Finding, Severity
from mothtrap.rules.answers_not_trained import AnswersNotTrained

Stops = tuple[int, int, float]


def check(*stops: Stops | None) -> list[Finding]:
    calls = [
        msgspec.structs.replace(
            loss_call_of(16), step=step, targets=TargetSample(dtype="int64", count=160, stops=one)
        )
        for step, one in enumerate(stops)
    ]
    return AnswersNotTrained().check(window(loss([1.0] * 20), *calls))


def test_answers_without_labels_are_named() -> None:
    [finding] = check((16, 16, 0.25), (16, 15, 0.35), (16, 16, 0.3))
    assert (finding.severity, finding.location) == (Severity.WARNING, LOSS)
    assert finding.message.startswith(
        "the labels of 47 of 48 sequences begin with the first token, and the loss ignores the "
        "last 30 % of the tokens"
    )
    assert finding.fixes[0].startswith("Mask the prompt, not the answer")


@pytest.mark.parametrize(
    "stops",
    [
        pytest.param((16, 0, 0.0), id="labels reach the end"),
        pytest.param((16, 4, 0.3), id="some texts are cut"),
    ],
)
def test_stays_quiet(stops: Stops) -> None:
    assert check(*[stops] * 3) == []


def test_few_sequences_say_nothing() -> None:
    assert check((4, 4, 0.3)) == []


def test_needs_labels_that_do_not_count() -> None:
    with pytest.raises(NotApplicable, match="no next-token loss that ignores labels"):
        check(None)
    with pytest.raises(NotEnoughData, match="no loss was traced"):
        AnswersNotTrained().check(window())
