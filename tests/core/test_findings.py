"""Findings are recognized in the next run."""

from mothtrap.core.findings import Severity, fingerprint


def test_a_fingerprint_depends_on_code_first_layer_and_mode_alone() -> None:
    one = fingerprint("GRD101", ("a", "b"), "train")
    assert one == fingerprint("GRD101", ("a", "c"), "train")
    others = {
        fingerprint("GRD102", ("a",), "train"),
        fingerprint("GRD101", ("b",), "train"),
        fingerprint("GRD101", (), "train"),
        fingerprint("GRD101", ("a",), "eval"),
    }
    assert len(others) == 4
    assert one not in others


def test_an_error_ranks_before_a_warning_and_that_before_an_info() -> None:
    ranked = sorted(Severity, key=lambda severity: severity.rank)
    assert ranked == [Severity.ERROR, Severity.WARNING, Severity.INFO]
