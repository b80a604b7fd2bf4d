"""Findings that a user does not want to see."""

from __future__ import annotations

import pytest

from mothtrap.core.config import Config
from mothtrap.core.findings import Finding, Severity, fingerprint
from mothtrap.core.quiet import Quiet


def finding(code: str = "GRD104", *layers: str) -> Finding:
    return Finding(
        code=code,
        name="x",
        severity=Severity.ERROR,
        step=1,
        detected_step=1,
        layers=layers,
        message="m",
        fingerprint=fingerprint(code, layers, "train"),
    )


def test_without_settings_everything_is_told_as_it_is() -> None:
    for found in (finding(), finding("GRD104", "head")):
        assert Quiet.of(Config()).apply(found) == found


@pytest.mark.parametrize("code", ["GRD104", "GRD"])
def test_a_rule_or_family_is_ignored_in_layers(code: str) -> None:
    quiet = Quiet(per_layer_ignores={"head.*": (code,), "*.bias": ("ACT",)})
    assert quiet.apply(finding("GRD104", "head.a", "head.b")) is None
    kept = quiet.apply(finding("GRD104", "head.a", "body.bias"))
    assert kept is not None
    assert kept.layers == ("body.bias",)
    assert kept.fingerprint == finding("GRD104", "body.bias").fingerprint
    other = finding("OPT604", "head.a")
    assert quiet.apply(other) == other


def test_a_finding_of_the_whole_training_is_not_hidden_by_layers() -> None:
    assert Quiet(per_layer_ignores={"*": ("GRD104",)}).apply(finding()) == finding()


def test_the_longest_code_that_fits_sets_the_severity() -> None:
    quiet = Quiet(severity={"GRD": "warning", "GRD104": "info"})
    told = [quiet.apply(finding(code)) for code in ("GRD104", "GRD101", "OPT604")]
    assert [f.severity for f in told if f] == [Severity.INFO, Severity.WARNING, Severity.ERROR]
