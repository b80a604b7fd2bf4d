"""Print a skill that teaches a coding agent to debug a training run."""

from __future__ import annotations

from pathlib import Path

import click


@click.command(name="skill")
@click.option(
    "--write",
    "folder",
    metavar="DIR",
    help="Write DIR/debug-training/SKILL.md instead, e.g. to .claude/skills.",
)
def command(folder: str | None) -> None:
    """Print a skill that teaches a coding agent to debug a training run.

    \b
    mothtrap skill --write .claude/skills
    """
    from mothtrap.agents.skill import skill_text
    from mothtrap.core.errors import OutputExistsError

    if folder is None:
        click.echo(skill_text(), nl=False)
        return
    path = Path(folder) / "debug-training" / "SKILL.md"
    if path.exists():
        raise OutputExistsError(f"{path} already exists; remove it to write it again")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(skill_text(), encoding="utf-8")
    click.echo(f"wrote {path}", err=True)
