"""A value that does not fit is reported with its key, itself, and the possible values."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

from mothtrap.core.collections import Collection
from mothtrap.core.config import Config
from mothtrap.core.errors import ConfigError
from mothtrap.core.schedule import Schedule
from mothtrap.core.values import to_struct


@pytest.mark.parametrize(
    ("values", "complaint"),
    [
        (
            {"capture": "evrything"},
            "capture cannot be 'evrything' (did you mean 'everything'?); "
            "expected one of: default, everything, off",
        ),
        ({"overhead": "2%"}, "overhead must be a number such as 0.02, not '2%'"),
        ({"overhead": True}, "overhead must be a number such as 0.02, not True"),
        ({"runs_dir": 3}, "runs_dir must be a string such as 'runs', not 3"),
        ({"select": "NUM"}, "select must be a list of strings, not 'NUM'"),
        ({"ignore": ["NUM", 3]}, "ignore must be a list of strings, not ['NUM', 3]"),
        (
            {"overhed": 1},
            "unknown key 'overhed' (did you mean 'overhead'?); known keys: actions, cache_mb, ",
        ),
        ({"rules": 3}, "rules must be a table, not 3"),
        ({"rules": {"GRD101": 3}}, "rules.GRD101 must be a table, not 3"),
        (
            {"rules": {"GRD101": {"limit": [1]}}},
            "rules.GRD101.limit must be a number, a whole number, a string, true or false, not [1]",
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
            "collections.a.modes cannot be 'trian' (did you mean 'train'?); expected one of: tr",
        ),
        (
            {"collections": {"a": {"eval": {"stopp": 3}}}},
            "unknown key 'collections.a.eval.stopp' (did you mean 'stop'?); known keys: every, ",
        ),
        (
            {"collections": {"a": {"statistics": ["avg"]}}},
            "collections.a.statistics cannot be 'avg'",
        ),
        (
            {"collections": {"a": {"every": None, "statistics": ["l3"]}}},
            "collections.a.statistics cannot be 'l3' (did you mean 'l2'?)",
        ),
    ],
)
def test_what_does_not_fit_is_said_in_words(values: dict[str, object], complaint: str) -> None:
    with pytest.raises(ConfigError, match="^x.toml: " + re.escape(complaint)):
        to_struct(values, Config, "x.toml")


@pytest.mark.parametrize(
    ("fields", "complaint"),
    [
        ({"tensors": "gradients"}, "tensors must be a list of strings, not 'gradients'"),
        ({"modules": "blocks.0"}, "modules must be a list of strings, not 'blocks.0'"),
        ({"statistics": ("medain",)}, "statistics cannot be 'medain' (did you mean 'mean'?)"),
        ({"statistics": "l2"}, "statistics must be a list of strings, not 'l2'"),
        ({"modes": ("tain",)}, "modes cannot be 'tain' (did you mean 'train'?)"),
        ({"every": 1.5}, "every must be a whole number, not 1.5"),
        ({"steps": 3}, "steps must be a list of whole numbers, not 3"),
        ({"on": "GRD"}, "on must be a list of strings, not 'GRD'"),
        ({"eval": 10}, "eval must be a table, not 10"),
        ({"eval": Schedule(every="often")}, "eval.every must be a whole number, not 'often'"),  # type: ignore[arg-type]
        ({"reductions": [max]}, "reductions must be a table, not "),
    ],
)
def test_a_collection_made_in_python_is_asked_as_one_of_a_file_is(
    fields: dict[str, Any], complaint: str
) -> None:
    with pytest.raises(ConfigError, match="^" + re.escape(f"collections.a.{complaint}")):
        to_struct({"collections": {"a": Collection(**fields)}}, Config, "")


def test_ranges_sets_and_numbers_of_numpy_are_lists_and_numbers() -> None:
    given = {
        "a": Collection(every=np.int64(7), steps=range(0, 9, 4)),  # type: ignore[arg-type]
        "b": Collection(steps=np.arange(2), tensors={"weights"}),  # type: ignore[arg-type]
    }
    made = to_struct({"collections": given}, Config, "").collections
    assert made == {
        "a": Collection(every=7, steps=(0, 4, 8)),
        "b": Collection(steps=(0, 1), tensors=("weights",)),
    }


def test_functions_of_a_collection_stay_what_they_are() -> None:
    made = to_struct({"collections": {"a": Collection(reductions={"top": max})}}, Config, "")
    assert made.collections["a"].reductions == {"top": max}


def test_names_are_texts() -> None:
    with pytest.raises(ConfigError, match=r"^collections must have strings as keys, not 3"):
        to_struct({"collections": {3: Collection()}}, Config, "")


def test_numbers_may_be_texts() -> None:
    values = {"overhead": "0.5", "collections": {"a": {"tensors": ["x"], "every": "7"}}}
    made = to_struct(values, Config, "")
    assert made.overhead == 0.5
    assert made.collections["a"].every == 7


def test_without_a_place_the_complaint_stands_alone() -> None:
    with pytest.raises(ConfigError, match=r"^overhead must be"):
        to_struct({"overhead": "x"}, Config, "")
