"""All facts that each framework reports of the batch, to notice unintended changes.

`golden/FRAMEWORK.json` holds them by kind of training. After an intended change of a fact, write
the files again and add a line with the reason to their list `changes`:

    GOLDEN=write python -m pytest tests/agreement
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import msgspec
from tests.agreement.stored import equal

from mothtrap.core.fact import Fact

FOLDER = Path(__file__).with_name("golden")
WHAT_IS_READ = {"AdapterReports", "Looked", "Blind"}
"""Facts that list what an adapter can report; `tests/testing/test_adapters.py` tests them."""
PLACE = re.compile(r'([^\s"]+\.py):\d+( from [^\s"]+)?')
"""A line of a program. Its number changes with any edit of the test and is omitted."""


def assert_unchanged(framework: str, kind: str, facts: Iterable[Fact]) -> None:
    """Compare all facts with the stored ones, field by field."""
    found = [_plain(fact) for fact in facts if type(fact).__name__ not in WHAT_IS_READ]
    path = FOLDER / f"{framework}.json"
    stored = json.loads(path.read_text()) if path.exists() else {"changes": []}
    if os.environ.get("GOLDEN") == "write":
        stored[kind] = found
        FOLDER.mkdir(exist_ok=True)
        path.write_text(_one_fact_per_line(stored))
        return
    differences = list(_differences(found, stored[kind]))
    assert not differences, "\n".join(differences)


def _plain(fact: Fact) -> dict[str, Any]:
    """Return the fields that are not empty, without digests and line numbers.

    `made_at` is searched in all loaded modules, including those of other tests.
    """
    fields = json.loads(PLACE.sub(r"\1", json.dumps(msgspec.to_builtins(fact))))
    fields.pop("made_at", None)
    if fields["type"] == "SamplesTaken":
        fields["batches"] = [batch.get("rows") for batch in fields["batches"]]
    return {name: value for name, value in _filled(fields).items() if value not in ([], {}, "")}


def _filled(fields: dict[str, Any]) -> dict[str, Any]:
    """Omit fields that are None, so that a new optional field changes nothing."""
    return {
        name: _filled(value) if isinstance(value, dict) else value
        for name, value in fields.items()
        if value is not None
    }


def _differences(found: list[dict[str, Any]], stored: list[dict[str, Any]]) -> Iterable[str]:
    for place in range(max(len(found), len(stored))):
        one = found[place] if place < len(found) else {}
        other = stored[place] if place < len(stored) else {}
        title = f"fact {place}, {other.get('type') or one.get('type')} of step {other.get('step')}"
        for name in sorted(one.keys() | other.keys()):
            if not equal(one.get(name), other.get(name)):
                yield f"{title}: {name} is {one.get(name)}, stored is {other.get(name)}"


def _one_fact_per_line(stored: dict[str, Any]) -> str:
    parts = []
    for name, values in stored.items():
        lines = ",\n".join(f"  {json.dumps(value)}" for value in values)
        parts.append(f'"{name}": [\n{lines}\n]' if values else f'"{name}": []')
    return "{\n" + ",\n".join(parts) + "\n}\n"
