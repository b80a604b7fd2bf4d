from __future__ import annotations

import pytest
from msgspec import structs
from tests.rules.windows import window

from mothtrap.core.errors import NotApplicable, NotEnoughData
from mothtrap.core.facts.layers import OutputSpread
from mothtrap.core.findings import Finding, Severity
from mothtrap.rules.posterior_collapse import PosteriorCollapse

STEPS = (0, 1, 3, 7, 15, 31, 63, 127, 255)


def check(
    code_rms: float,
    share: float,
    *,
    steps: tuple[int, ...] = STEPS,
    outputs: int = 3,
    first_rms: float | None = None,
    samples: bool = False,
) -> list[Finding]:
    """Check a model whose outputs are a reconstruction, and means and log variances of a code."""
    looks = [
        OutputSpread(
            step=step,
            root="vae",
            place=str(place),
            shape=shape,
            spread=share * 0.5 if place == 0 else code_rms,
            rms=0.5 if place == 0 else (first_rms or code_rms) if step == 0 else code_rms,
            largest=1.0,
            inputs_differ=True,
            location="vae.py:30",
        )
        for step in steps
        for place, shape in enumerate([(32, 64), (32, 8), (32, 8)][:outputs])
    ]
    if samples:
        looks.append(structs.replace(looks[0], step=7, place="", shape=(10, 64)))
    return PosteriorCollapse().check(window(*looks))


def test_a_code_that_shrinks_to_nothing_is_reported() -> None:
    [finding] = check(0.01, 0.02)
    assert (finding.severity, finding.step, finding.location) == (
        Severity.WARNING,
        127,
        "vae.py:30",
    )
    assert "outputs 1 and 2 of vae have shrunk to 0.01" in finding.message
    assert "output 0 differs between rows by 0.02 of its size" in finding.message


def test_a_code_that_has_vanished_is_reported_while_the_decoder_still_follows_the_noise() -> None:
    [finding] = check(0.01, 0.5, first_rms=0.1)
    assert finding.message.endswith("by 0.5 of its size: the KL term outweighs the reconstruction")
    assert check(0.04, 0.5, first_rms=0.4) == []


def test_a_model_that_drew_samples_in_between_is_judged_too() -> None:
    assert len(check(0.01, 0.02, samples=True)) == 1


@pytest.mark.parametrize(
    ("code_rms", "share"),
    [
        pytest.param(0.8, 0.5, id="a code that is used"),
        pytest.param(0.8, 0.01, id="rows that are alike"),
        pytest.param(0.01, 0.5, id="small outputs beside one that depends on the row"),
    ],
)
def test_stays_quiet(code_rms: float, share: float) -> None:
    assert check(code_rms, share) == []


def test_outputs_that_are_larger_than_the_reconstruction_are_no_code() -> None:
    looks = [
        OutputSpread(
            step=step,
            root="detector",
            place=str(place),
            shape=shape,
            spread=0.01,
            rms=0.5 if place == 0 else 0.01,
            largest=1.0,
            inputs_differ=True,
        )
        for step in STEPS
        for place, shape in enumerate([(8, 1, 16, 16), (8, 3, 16, 16), (8, 3, 16, 16)])
    ]
    assert PosteriorCollapse().check(window(*looks)) == []


def test_needs_late_checks_and_three_outputs() -> None:
    with pytest.raises(NotEnoughData):
        check(0.01, 0.02, steps=(0, 1, 3, 7))
    with pytest.raises(NotApplicable):
        check(0.01, 0.02, outputs=2)


def weak(
    code_rms: float,
    reconstructed: float,
    *,
    before: float | None = None,
    given: float | None = 1.0,
    steps: tuple[int, ...] = (50, 100, 200, 300, 400),
) -> list[Finding]:
    """Check a model whose reconstruction differs by `reconstructed`, and half way by `before`."""
    looks = [
        OutputSpread(
            step=step,
            root="vae",
            place=str(place),
            shape=shape,
            spread=(before or reconstructed if step < 300 else reconstructed) if not place else 0.3,
            rms=0.7 if not place else code_rms,
            largest=1.0,
            inputs_differ=True,
            input_spread=None if place else given,
            location="vae.py:30",
        )
        for step in steps
        for place, shape in enumerate([(32, 64), (32, 8), (32, 8)])
    ]
    return PosteriorCollapse().check(window(*looks))


def test_a_weak_code_with_a_reconstruction_that_loses_most_of_the_variance_is_reported() -> None:
    [finding] = weak(0.35, 0.36)
    assert (finding.severity, finding.step) == (Severity.WARNING, 300)
    assert "have shrunk to 0.35 (limit 0.6" in finding.message
    assert "output 0 differs between rows by 0.36 of the spread of the input" in finding.message


@pytest.mark.parametrize(
    "found",
    [
        pytest.param(weak(1.4, 0.36), id="a code that is used: the decoder is weak"),
        pytest.param(weak(0.5, 0.8), id="some units off, and a good reconstruction"),
        pytest.param(weak(0.35, 0.36, before=0.15), id="still learning"),
        pytest.param(weak(0.35, 0.36, given=None), id="no input like the output"),
        pytest.param(weak(0.35, 0.36, steps=(50, 100, 150)), id="a short training"),
    ],
)
def test_stays_quiet_about_weak_codes(found: list[Finding]) -> None:
    assert found == []


def check_apart(code_rms: float, share: float, *, first_rms: float = 0.3) -> list[Finding]:
    """Check an encoder that returns means and log variances, and a separate decoder."""
    looks = [
        OutputSpread(
            step=step,
            root=root,
            place=place,
            shape=(32, 64) if root == "decoder" else (32, 8),
            spread=share * 0.5 if root == "decoder" else code_rms,
            rms=0.5 if root == "decoder" else code_rms if step else first_rms,
            largest=1.0,
            inputs_differ=True,
            location="vae.py:30",
        )
        for step in STEPS
        for root, place in (("encoder", "0"), ("encoder", "1"), ("decoder", ""))
    ]
    return PosteriorCollapse().check(window(*looks))


def test_an_encoder_and_a_decoder_that_are_separate_models() -> None:
    [finding] = check_apart(0.01, 0.02)
    assert finding.layers == ("encoder", "decoder")
    assert "outputs 0 and 1 of encoder have shrunk to 0.01" in finding.message
    assert "the output of decoder differs between rows by 0.02 of its size" in finding.message
    assert check_apart(0.01, 0.5) == []
    assert check_apart(0.2, 0.02) == []
    assert check_apart(0.01, 0.02, first_rms=0.01) == []
