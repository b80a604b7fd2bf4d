"""`mothtrap config`: current settings, their sources, and the schema."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from click.testing import CliRunner

from mothtrap.cli import main
from mothtrap.core.collections import Collection
from mothtrap.core.config import load_config
from mothtrap.core.schedule import Schedule
from mothtrap.monitor.catalogue import load_rules


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    for variable in ("MOTHTRAP_OVERHEAD", "MOTHTRAP_CAPTURE", "MOTHTRAP_COLLECTIONS"):
        monkeypatch.delenv(variable, raising=False)
    (tmp_path / "mothtrap.toml").write_text(
        "overhead = 0.5\nqueue_mb = 8\n[collections.gradients]\nevery = 7\n"
    )
    return tmp_path


def said(*words: str) -> str:
    outcome = CliRunner().invoke(main, ["config", *words])
    assert outcome.exit_code == 0, outcome.output
    return outcome.stdout


def test_settings_are_shown_with_where_they_come_from(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MOTHTRAP_OVERHEAD", "0.25")
    monkeypatch.setenv("MOTHTRAP_COLLECTIONS", "weights = {raw = true}")
    rows = json.loads(said("--format", "json"))
    file = str(folder / "mothtrap.toml")
    assert rows["overhead"] == {"value": 0.25, "source": "MOTHTRAP_OVERHEAD"}
    assert rows["queue_mb"] == {"value": 8.0, "source": file}
    assert rows["capture"] == {"value": "default", "source": "default"}
    assert rows["collections.gradients"] == {"value": {"every": 7}, "source": file}
    assert rows["collections.weights"]["value"] == {"raw": True}
    lines = said().splitlines()
    assert any(
        line.split() == ["overhead", "=", "0.25", "#", "MOTHTRAP_OVERHEAD"] for line in lines
    )


def test_the_schema_is_one_that_editors_read(folder: Path) -> None:
    schema = json.loads(said("--schema"))
    assert schema["$schema"].startswith("https://json-schema.org/")
    collection = schema["$defs"]["Collection"]["properties"]
    assert collection["modes"]["items"]["enum"] == ["eval", "predict", "train"]
    assert schema["$defs"]["Collection"]["additionalProperties"] is False


def test_the_examples_of_the_page_are_sound(folder: Path) -> None:
    page = (Path(__file__).parents[2] / "docs" / "capture.md").read_text(encoding="utf-8")
    tables = re.findall(r"```toml\n(.*?)```", page, re.DOTALL)
    (folder / "mothtrap.toml").write_text("\n".join(tables))
    rows = json.loads(said("--format", "json"))
    assert rows["collections.explosion"]["value"]["on"] == ["GRD"]
    (variable,) = re.findall(r"MOTHTRAP_COLLECTIONS='(.*?)'", page)
    environ = {"MOTHTRAP_COLLECTIONS": variable}
    loaded, _ = load_config(start=folder, environ=environ)
    assert loaded.collections["gradients"] == Collection(every=10, raw=True)
    names: dict[str, object] = {}
    for code in re.findall(r"```python\n(.*?)```", page, re.DOTALL):
        exec(compile(code, "capture.md", "exec"), names)
    made = names["collections"]
    assert isinstance(made, dict)
    loaded, _ = load_config(start=folder, environ={}, overrides={"collections": made})
    assert loaded.collections["hidden"].eval == Schedule(every=10)
    load_rules(loaded)


def test_a_bad_file_is_named(folder: Path) -> None:
    (folder / "mothtrap.toml").write_text("[collections.gradients]\nevery = 0\n")
    outcome = CliRunner().invoke(main, ["config"])
    assert outcome.exit_code == 2
    assert "collections.gradients.every must be 1 step or more" in outcome.stderr


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('ignore = ["STR799"]', "ignore contains 'STR799', but no rule code begins with it"),
        ("[rules.STR799]\nx = 1", "[rules.STR799] names no rule"),
        (
            "[collections.gradients]\non = ['explosion']",
            "collections.gradients.on contains 'explosion'",
        ),
        ("[rules.STR701]\nx = 1", "[rules.STR701] has no 'x'"),
        ('select = ["softmax_before_cross_entropy"]', "; STR701 is the code of that rule;"),
        ("[rules.softmax-before-cross-entropy]\ncalls = 3", "; STR701 is the code of that rule;"),
    ],
)
def test_what_a_run_would_refuse_is_refused_with_its_file(
    folder: Path, text: str, message: str
) -> None:
    (folder / "mothtrap.toml").write_text(text)
    outcome = CliRunner().invoke(main, ["config"])
    assert outcome.exit_code == 2
    assert message in outcome.stderr
    assert str(folder / "mothtrap.toml") in outcome.stderr
