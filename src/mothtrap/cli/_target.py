"""Split the command line of `mothtrap run` into mothtrap's options and the target."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any

import click

from mothtrap.cli._group import Refusal
from mothtrap.core.errors import nearest
from mothtrap.core.working_folder import working_folder

TARGET = "mothtrap.target"


def split(args: Sequence[str], with_value: Collection[str]) -> tuple[list[str], list[str]]:
    """Split a command line at the target; the words after it are not parsed.

    Args:
        args: everything after `mothtrap run`.
        with_value: mothtrap's options that take the next word as their value.

    Returns:
        mothtrap's options, and the target, which begins with `--`, `-m`, or a script's path.
    """
    position = 0
    while position < len(args):
        word = args[position]
        if word in with_value:
            position += 2
        elif word in ("--", "-m") or not word.startswith("-") or word == "-":
            break
        elif word.startswith("-m"):
            return list(args[:position]), ["-m", word[2:], *args[position + 1 :]]
        else:
            position += 1
    return list(args[:position]), list(args[position:])


def command_of(target: Sequence[str]) -> list[str]:
    """Turn a target into the command to start.

    Raises:
        Refusal: the script or program does not exist, or no target was given.
    """
    if not target:
        raise Refusal(
            "missing TARGET: pass a script, -m MODULE, or -- COMMAND, e.g. mothtrap run train.py"
        )
    first, *rest = target
    if first == "-m":
        if not rest or not rest[0]:
            raise Refusal("-m needs a module, e.g. mothtrap run -m package.train")
        return [sys.executable, "-m", *rest]
    if first != "--":
        return [sys.executable, _script(first, launcher_hint=True), *rest]
    if not rest:
        raise Refusal("-- needs a command, e.g. mothtrap run -- torchrun train.py")
    if rest[0].endswith(".py"):
        return [sys.executable, _script(rest[0], launcher_hint=False), *rest[1:]]
    program = _program(rest[0])
    if program is None:
        raise Refusal(
            f"program {rest[0]!r} is neither on PATH nor in {Path(sys.executable).parent}; pass "
            "an executable program, or a script that ends in .py"
        )
    return [program, *rest[1:]]


def _program(name: str) -> str | None:
    """Return the program to start: a name on PATH, else a path next to our Python.

    Launchers such as torchrun are there even if the environment was not activated.
    """
    if shutil.which(name):
        return name
    return shutil.which(name, path=str(Path(sys.executable).parent))


def _script(name: str, *, launcher_hint: bool) -> str:
    path = Path(name)
    # Python also runs a folder or an archive that holds a __main__.py.
    if path.is_file() or (path / "__main__.py").is_file():
        return name
    if path.is_dir():
        raise Refusal(f"{name!r} is a folder without a __main__.py; pass a script")
    hint = ""
    if launcher_hint and path.suffix != ".py" and _program(name):
        hint = f"; to run the program {name!r}, write: mothtrap run -- {name} ..."
    elif path.parent.is_dir():
        scripts = [str(file.relative_to(path.parent)) for file in path.parent.glob("*.py")]
        hint = nearest(path.name, scripts)
    raise Refusal(f"no script {name!r} in {working_folder()}{hint}")


class RunCommand(click.Command):
    """Click command that does not parse the target and its arguments."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse our options only; the target is left in `ctx.meta`."""
        with_value = {
            name
            for option in self.params
            if isinstance(option, click.Option) and not option.is_flag
            for name in option.opts
        }
        ours, ctx.meta[TARGET] = split(args, with_value)
        return super().parse_args(ctx, ours)

    def collect_usage_pieces(self, ctx: click.Context) -> list[str]:
        """Return the usage line, including the target."""
        pieces: list[Any] = [*super().collect_usage_pieces(ctx), "TARGET [ARGS]..."]
        return pieces
