"""The skill that teaches a coding agent to debug a training run."""

from __future__ import annotations

from importlib.resources import files


def skill_text() -> str:
    """Return the content of SKILL.md."""
    return (files("mothtrap.agents") / "SKILL.md").read_text(encoding="utf-8")
