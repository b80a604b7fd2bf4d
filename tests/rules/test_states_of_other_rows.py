from __future__ import annotations

import pytest
from tests.rules.windows import window

from mothtrap.core.facts.data import StatesKept
from mothtrap.core.findings import Severity
from mothtrap.rules.states_of_other_rows import states_of_other_rows


def kept(**changed: object) -> StatesKept:
    told = {"step": 0, "layers": ("lstm", "lstm_1"), "shuffled": True, "batches": 200}
    return StatesKept(**(told | changed), location="a.py:7")  # type: ignore[arg-type]


def test_shuffled_rows_get_the_state_of_another_row() -> None:
    [finding] = states_of_other_rows().check(window(kept()))
    assert (finding.severity, finding.location) == (Severity.WARNING, "a.py:7")
    assert "lstm and lstm_1 keep their states from batch to batch" in finding.message


@pytest.mark.parametrize("changed", [{"shuffled": False}, {"batches": 1}])
def test_rows_in_order_and_single_batches_are_fine(changed: dict[str, object]) -> None:
    assert not states_of_other_rows().check(window(kept(**changed)))
