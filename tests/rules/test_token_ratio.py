from __future__ import annotations

import pytest
from msgspec import structs
from tests.rules.looks import spread
from tests.rules.windows import window

from mothtrap.core.errors import NotApplicable, NotEnoughData
from mothtrap.core.facts.losses import LossCall, TargetSample, TokenShares
from mothtrap.core.findings import Finding, Severity
from mothtrap.rules.token_ratio import TokenRatio


def tokens(shares: dict[int, float], *, step: int = 0, count: int = 1000) -> TokenShares:
    return TokenShares(step=step, argument="0", count=count, shares=shares)


def check(*seen: object, **thresholds: object) -> list[Finding]:
    return TokenRatio(**thresholds).check(window(*seen))


PADDED = {0: 0.7, 5: 0.1, 9: 0.1}


def test_mostly_padding_is_a_warning() -> None:
    line = LossCall(step=0, operation="cross_entropy", location="train.py:9")
    [finding] = check(tokens(PADDED), line)
    assert (finding.severity, finding.evidence["value"]) == (Severity.WARNING, pytest.approx(70))
    assert finding.location == "train.py:9"


def test_of_whole_sequences_it_is_a_note() -> None:
    whole = LossCall(step=0, operation="cross_entropy", classes=3, prediction_shape=(32, 3))
    [finding] = check(tokens(PADDED), whole)
    assert finding.severity is Severity.INFO
    assert finding.message.endswith("the loss has one label per sequence")
    each = structs.replace(whole, prediction_shape=(32, 40, 3))
    assert check(tokens(PADDED), whole, each)[0].severity is Severity.WARNING


def test_padding_that_the_model_skips_is_a_note() -> None:
    packed = structs.replace(tokens(PADDED), packed=True)
    [finding] = check(packed)
    assert finding.severity is Severity.INFO
    assert finding.message.endswith("the model packs its sequences, so it skips them")
    [finding] = check(packed, counting(0.6, label=0))
    assert finding.severity is Severity.WARNING
    assert finding.message.endswith("and the loss counts them")


def counting(share: float, *, step: int = 0, label: int = 2) -> LossCall:
    targets = TargetSample(dtype="int64", count=400, padding=(label, share))
    return LossCall(
        step=step, operation="cross_entropy", classes=30, location="lm.py:4", targets=targets
    )


def test_padding_that_the_loss_counts_is_to_be_excluded_first() -> None:
    [finding] = check(tokens(PADDED), counting(0.6, label=0))
    assert finding.severity is Severity.WARNING
    assert finding.message.endswith("(limit 50 %), and the loss counts them")
    assert finding.fixes[0].startswith("Exclude padding from the loss")


def test_any_label_that_pads_targets_is_reported() -> None:
    words = tokens({5: 0.5, 6: 0.3, 2: 0.2})
    calls = [counting(0.4, step=step) for step in (0, 8, 16)]
    [finding] = check(words, *calls)
    assert (finding.severity, finding.location) == (Severity.WARNING, "lm.py:4")
    assert "40 % of the targets are token 2" in finding.message
    assert finding.fixes[0].startswith("Exclude padding from the loss")
    assert check(words, *(counting(0.2, step=step) for step in (0, 8, 16))) == []
    assert check(words, *calls[:2]) == []
    each = structs.replace(calls[0], reduction="none", above=("mean", "mul"))
    assert check(words, each, *calls[1:]) == []


def test_many_classes_of_whole_sequences_are_no_tokens() -> None:
    """A class of 18 countries looks like a vocabulary, but there is one label for 20 letters."""
    many = LossCall(
        step=0,
        operation="cross_entropy",
        classes=18,
        prediction_shape=(50, 18),
        targets=TargetSample(dtype="int64", count=50, input_offsets=()),
    )
    assert check(tokens(PADDED), many)[0].severity is Severity.INFO
    letters = structs.replace(many, prediction_shape=(1000, 18))
    assert check(tokens(PADDED), letters)[0].severity is Severity.WARNING


def test_shares_are_weighed_by_their_tokens() -> None:
    assert check(tokens(PADDED), tokens({4: 0.9, 5: 0.05, 6: 0.05}, step=8, count=2000)) == []


# The row of the rule's predecessor: tokens with a threshold each.


def test_token_values_and_their_thresholds_are_expressible() -> None:
    settings = {"token_values": "0,9", "token_thresholds_percent": "80,5"}
    [finding] = check(tokens(PADDED), **settings)
    assert (finding.evidence["token"], finding.evidence["limit"]) == (9, 5.0)
    assert check(tokens(PADDED), token_values="7", token_thresholds_percent="1") == []


def test_the_last_threshold_counts_for_further_tokens() -> None:
    [finding] = check(tokens(PADDED), token_values="3,5,9", token_thresholds_percent="90,9.5")
    assert finding.evidence["token"] == 5


def test_the_threshold_itself_is_allowed() -> None:
    assert check(tokens({0: 0.5, 1: 0.3, 2: 0.2})) == []


def test_cannot_judge_masks_or_few_tokens() -> None:
    with pytest.raises(NotApplicable, match="two values"):
        check(tokens({0: 0.7, 1: 0.3}))
    with pytest.raises(NotEnoughData):
        check(tokens(PADDED, count=499))
    with pytest.raises(NotApplicable, match="no model"):
        check()
    with pytest.raises(NotApplicable, match="numbers"):
        check(tokens(PADDED), token_values="pad")


def masked(**fields: object) -> LossCall:
    return LossCall(step=0, operation="cross_entropy", **fields)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "line",
    [
        masked(targets=TargetSample(dtype="int64", count=600, ignored_share=0.68)),
        masked(reduction="none", above=("mean", "mul")),
        masked(reduction="none", above=("mean", "index")),
    ],
    ids=["ignored labels", "weights", "picked positions"],
)
def test_padding_that_the_loss_leaves_out_is_a_note(line: LossCall) -> None:
    [finding] = check(tokens(PADDED), line)
    assert finding.severity is Severity.INFO
    assert finding.message.endswith("; the loss ignores them")
    assert "ignore_index" not in " ".join(finding.fixes)


def test_a_few_ignored_labels_do_not_mask_the_padding() -> None:
    few = masked(targets=TargetSample(dtype="int64", count=600, ignored_share=0.02))
    [finding] = check(tokens(PADDED), few)
    assert finding.severity is Severity.WARNING


def test_padding_that_drowns_whole_sequences_is_a_warning() -> None:
    whole = LossCall(step=0, operation="cross_entropy", classes=3, prediction_shape=(32, 3))
    same = [spread(step, 1e-6, shape=(32, 3)) for step in range(4)]
    [finding] = check(tokens(PADDED), whole, *same)
    assert finding.severity is Severity.WARNING
    assert "may not mask them" in finding.message
    assert finding.fixes[0].startswith("Let the model skip padding")
    assert check(tokens(PADDED), whole, *same, spread(5, 0.1))[0].severity is Severity.INFO
