"""A value that does not fit is answered with its key, itself, and what is possible."""

from __future__ import annotations

import re

import pytest

from mothtrap.core.config import Config
from mothtrap.core.errors import ConfigError
from mothtrap.core.values import to_struct


@pytest.mark.parametrize(
    ("values", "complaint"),
    [
        (
            {"capture": "evrything"},
            "capture cannot be 'evrything' (did you mean 'everything'?); "
            "possible: default, everything, off",
        ),
        ({"overhead": "2%"}, "overhead must be a number such as 0.02, not '2%'"),
        ({"overhead": True}, "overhead must be a number such as 0.02, not True"),
        ({"runs_dir": 3}, "runs_dir must be a text such as 'runs', not 3"),
        ({"select": "NUM"}, "select must be a list of texts, not 'NUM'"),
        ({"ignore": ["NUM", 3]}, "ignore must be a list of texts, not ['NUM', 3]"),
        (
            {"overhed": 1},
            "unknown key 'overhed' (did you mean 'overhead'?); known keys: cache_mb, capture, ",
        ),
        ({"rules": 3}, "rules must be a table, not 3"),
        ({"rules": {"GRD101": 3}}, "rules.GRD101 must be a table, not 3"),
        (
            {"rules": {"GRD101": {"limit": [1]}}},
            "rules.GRD101.limit must be a number, a whole number, a text, true or false, not [1]",
        ),
        ({"collections": {"a": 3}}, "collections.a must be a table, not 3"),
        (
            {"collections": {"a": {"tensors": ["x"], "evry": 1}}},
            "unknown key 'collections.a.evry' (did you mean 'every'?); known keys: budget_mb, ",
        ),
        (
            {"collections": {"a": {"tensors": ["x"], "every": "often"}}},
            "collections.a.every must be a whole number, not 'often'",
        ),
        (
            {"collections": {"a": {"modes": ["trian"]}}},
            "collections.a.modes cannot be 'trian' (did you mean 'train'?); possible: train, ",
        ),
        (
            {"collections": {"a": {"eval": {"stopp": 3}}}},
            "unknown key 'collections.a.eval.stopp' (did you mean 'stop'?); known keys: every, ",
        ),
        (
            {"collections": {"a": {"statistics": ["avg"]}}},
            "collections.a.statistics cannot be 'avg'",
        ),
    ],
)
def test_what_does_not_fit_is_said_in_words(values: dict[str, object], complaint: str) -> None:
    with pytest.raises(ConfigError, match="^x.toml: " + re.escape(complaint)):
        to_struct(values, Config, "x.toml")


def test_numbers_may_be_texts() -> None:
    values = {"overhead": "0.5", "collections": {"a": {"tensors": ["x"], "every": "7"}}}
    made = to_struct(values, Config, "")
    assert made.overhead == 0.5
    assert made.collections["a"].every == 7


def test_without_a_place_the_complaint_stands_alone() -> None:
    with pytest.raises(ConfigError, match=r"^overhead must be"):
        to_struct({"overhead": "x"}, Config, "")
