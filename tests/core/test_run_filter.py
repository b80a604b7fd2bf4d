"""The language in which runs are chosen."""

from __future__ import annotations

import pytest

from mothtrap.core.errors import QueryError
from mothtrap.core.run_filter import Facts, Value, read_filter

VALUES: dict[str, Value] = {
    "lr": 0.01,
    "layers": "12",
    "optim.name": "AdamW",
    "eval/loss": float("nan"),
    "state": "crashed",
    "amp": True,
    "note": "",
}
RUN = Facts(values=VALUES, marks=("GRD101", "exploding_gradient", "baseline"))


@pytest.mark.parametrize(
    ("text", "holds"),
    [
        ("lr > 1e-3 and GRD101", True),
        ("lr > 1e-3 and not grd101", False),
        ("lr == 0.01", True),
        ("lr=1e-2", True),
        ("layers >= 12", True),
        ("0.001 < lr", True),
        ("optim.name == 'adamw'", True),
        ("optim.name ~ 'adam'", True),
        ('state != "crashed"', False),
        ("eval/loss < 3", False),
        ("eval/loss >= 3", False),
        ("eval/loss != 3", True),
        ("missing < 3", False),
        ("not missing < 3", True),
        ("amp", True),
        ("amp == true", True),
        ("note", False),
        ("baseline", True),
        ("exploding_gradient or lr > 5", True),
        ("lr > 5 or lr > 0 and GRD102", False),
        ("(lr > 5 or lr > 0) and GRD101", True),
        ("lr > 'abc'", False),
        ("lr > -1", True),
    ],
)
def test_an_expression_is_what_it_says(text: str, holds: bool) -> None:
    assert read_filter(text).test(RUN) is holds


@pytest.mark.parametrize(
    "text",
    [
        *("", "lr >", "lr > and", "3", "'a'", "lr > 1 lr", "(lr > 1", "lr > 1)"),
        *("__import__('os')", "lr > 1; x", "lr.__class__()", "not", "(" * 200 + "lr"),
        *("lr > 1 and " * 500, "lr ? 3"),
    ],
)
def test_what_is_no_expression_is_refused(text: str) -> None:
    with pytest.raises(QueryError):
        read_filter(text)


def test_a_name_that_no_run_has_is_refused_with_the_nearest() -> None:
    wanted = read_filter("lrr > 3 or GRD999")
    with pytest.raises(QueryError, match=r"no run has 'lrr' .*'lr'"):
        wanted.check(["lr", "layers"])
    read_filter("LR > 3 or GRD999").check(["lr"])
