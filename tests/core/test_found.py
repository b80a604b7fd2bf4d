"""A `Found` takes its fields from the facts that show the fault."""

from __future__ import annotations

from tests.rules.windows import window

import mothtrap
from mothtrap.core.checked_findings import findings_of
from mothtrap.core.fact import Fact

SEEN = window(steps=9)


@mothtrap.rule("LOS901")
class Given(mothtrap.Rule):
    """It finds nothing by itself.

    Why it matters:
        It does not.

    What to do:
        - Lower the rate.
        - Shuffle the data.
        - PyTorch: Call `backward`.
        - Keras: Call `fit`.
    """

    def check(self, window):
        return []


class Plain(Fact, frozen=True, kw_only=True, tag=True):
    """A fact without a location or layers."""


class Placed(Fact, frozen=True, kw_only=True, tag=True):
    """A fact with everything that a `Found` takes from facts."""

    location: str
    layer: str = ""
    layers: tuple[str, ...] = ()


def test_one_fact_is_one_step() -> None:
    found = mothtrap.Found.of(Placed(step=3, location="a.py:4", layer="head"), "odd")
    assert (found.step, found.last_step, found.count) == (3, 3, 1)
    assert (found.message, found.location, found.layers) == ("odd", "a.py:4", ("head",))


def test_several_facts_begin_with_the_first_and_end_with_the_last() -> None:
    found = mothtrap.Found.of(
        [
            Placed(step=3, location="a.py:4", layers=("head", "body")),
            Placed(step=5, location="b.py:9", layer="head"),
            Placed(step=5, location="b.py:9", layer="tail"),
        ],
        "odd",
    )
    assert (found.step, found.last_step, found.count) == (3, 5, 2)
    assert (found.location, found.layers) == ("a.py:4", ("head", "body", "tail"))


def test_a_fact_without_a_field_adds_nothing() -> None:
    found = mothtrap.Found.of(Plain(step=3), "odd")
    assert (found.location, found.layers, found.evidence) == (None, (), {})


def test_a_field_can_be_replaced() -> None:
    fact = Placed(step=3, location="a.py:4", layer="head")
    found = mothtrap.Found.of(fact, "odd", step=0, location=None, layers=(), severity="info")
    assert (found.step, found.last_step, found.location, found.layers) == (0, 3, None, ())
    assert found.severity == "info"


def test_advice_is_chosen_by_its_position() -> None:
    found = mothtrap.Found(step=3, message="odd", fixes=(3, 1, "Stop.", 2))
    [finding] = findings_of(Given(), SEEN, found)
    assert finding.fixes == ("Shuffle the data.", "Stop.", "Call `backward`.")
    [finding] = findings_of(Given(), SEEN.of_library("keras"), found)
    assert finding.fixes == ("Call `fit`.", "Shuffle the data.", "Stop.")


def test_advice_is_of_the_named_library() -> None:
    [finding] = findings_of(Given(), SEEN, mothtrap.Found(step=3, message="odd", library="keras"))
    assert finding.fixes[-1] == "Call `fit`."


def test_title_reason_and_ranks_can_be_of_the_case() -> None:
    own = mothtrap.Found(step=3, message="odd", title="oddity", why="It is rare.", workers=(1, 2))
    [finding] = findings_of(Given(), SEEN, own)
    assert (finding.title, finding.why, finding.workers) == ("oddity", "It is rare.", (1, 2))
    [finding] = findings_of(Given(), SEEN, mothtrap.Found(step=3, message="odd"))
    assert (finding.title, finding.why, finding.workers) == ("", "It does not.", (0,))


def test_the_last_step_of_a_window_without_steps_is_taken() -> None:
    empty = window(steps=0)
    found = mothtrap.Found(step=0, message="odd", last_step=empty.last_step)
    assert findings_of(Given(), empty, found)[0].last_step == -1
