"""Numbers that JSON lacks are written as strings and read back as numbers."""

import json
import math
import subprocess
import sys

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mothtrap.core import jsonable
from mothtrap.core.facts.captures import Blind
from mothtrap.core.findings import Finding, Severity
from mothtrap.core.records import Scalar


def test_what_is_not_finite_is_told_truthfully() -> None:
    values = {"a": math.nan, "b": [math.inf, -math.inf], "c": {"d": 1.5}}
    text = jsonable.encode(values)
    assert json.loads(text) == {"a": "NaN", "b": ["Infinity", "-Infinity"], "c": {"d": 1.5}}


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers(-(2**63), 2**63) | st.floats() | st.text('nul"{é'),
        lambda inner: st.lists(inner) | st.dictionaries(st.text("nul"), inner),
    )
)
def test_all_but_numbers_that_are_not_finite_is_plain_json(value: object) -> None:
    def said(part: object) -> object:
        if isinstance(part, dict):
            return {name: said(item) for name, item in part.items()}
        if isinstance(part, list):
            return [said(item) for item in part]
        finite = not isinstance(part, float) or math.isfinite(part)
        return part if finite else {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}[str(part)]

    assert json.loads(jsonable.encode(value)) == said(value)


@given(st.floats(allow_nan=True, allow_infinity=True))
def test_a_scalar_comes_back_bit_for_bit(value: float) -> None:
    back = jsonable.decode(jsonable.encode(Scalar("loss", "x", value)), Scalar)
    assert back.value == value or (math.isnan(back.value) and math.isnan(value))


def test_a_finding_comes_back() -> None:
    finding = Finding(
        code="NUM001",
        name="nonfinite_loss",
        severity=Severity.ERROR,
        step=1,
        detected_step=2,
        message="m",
        evidence={"limit": 1.0, "layers": ["a"]},
    )
    assert jsonable.decode(jsonable.encode(finding), Finding) == finding


def test_a_name_that_is_no_utf_8_is_escaped() -> None:
    assert json.loads(jsonable.encode({"a": ["b\udcff", None]})) == {"a": ["b\\udcff", None]}
    fact = Blind(step=3, what="dir\udcff/x.py", reason="y")
    assert jsonable.decode(jsonable.text(fact), Blind).what == "dir\\udcff/x.py"


def test_what_is_no_json_raises() -> None:
    with pytest.raises(msgspec.DecodeError):
        jsonable.decode("{", Finding)


RACE = """
import enum, sys, threading
import msgspec
from mothtrap.core import jsonable

sys.setswitchinterval(1e-6)
for _ in range(60):
    Word = enum.Enum("Word", {f"N{i}": f"v{i}" for i in range(6)}, type=str)
    Part = msgspec.defstruct("Part", [("word", Word), ("more", list[Word])])
    Whole = msgspec.defstruct("Whole", [("parts", list[Part]), ("word", Word)])
    gate = threading.Barrier(4)

    def decode():
        gate.wait()
        jsonable.decode(b'{"parts":[{"word":"v1","more":["v2"]}],"word":"v3"}', Whole)

    threads = [threading.Thread(target=decode) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
"""


def test_threads_may_meet_a_type_at_once() -> None:
    """In a process of its own: msgspec alone crashes here."""
    assert subprocess.run([sys.executable, "-c", RACE], timeout=60).returncode == 0
