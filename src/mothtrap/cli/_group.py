"""Command group that imports a command only when it is called, and prints errors as sentences."""

from __future__ import annotations

import ast
import importlib
import sys
import traceback
from pathlib import Path
from typing import IO, Any

import click

from mothtrap.core.errors import MothtrapError, nearest

USAGE_OR_OWN_ERROR = 2


class Refusal(click.ClickException):
    """Error that is printed as a sentence, with exit code 2."""

    exit_code = USAGE_OR_OWN_ERROR

    def show(self, file: IO[Any] | None = None) -> None:
        """Print the message on stderr without a traceback, escaping control characters."""
        from mothtrap.core.masking import without_secrets
        from mothtrap.core.texts import printable

        lines = without_secrets(self.format_message()).split("\n")
        click.echo(f"error: {chr(10).join(map(printable, lines))}", err=True, file=file)


class CommandFolder(click.Group):
    """Finds commands by the file names in a folder; module and command have the same name."""

    def __init__(self, *args: Any, folder: Path, package: str, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._folder = folder
        self._package = package

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002  # click's signature
        """Names of the public modules, sorted."""
        files = self._folder.glob("*.py")
        return sorted(file.stem for file in files if not file.stem.startswith("_"))

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import one command; None if there is no such module."""
        if cmd_name not in self.list_commands(ctx):
            return None
        module = importlib.import_module(f"{self._package}.{cmd_name}")
        command = module.command
        if not isinstance(command, click.Command):
            raise TypeError(f"{module.__name__}.command is {command!r}, not a click command")
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command of a command line; suggest the closest name for an unknown one."""
        name = args[0] if args else ""
        known = self.list_commands(ctx)
        if name.endswith(".py"):
            ctx.fail(f"no command {name!r}; to watch a script: mothtrap run {name}")
        if args and not name.startswith("-") and name not in known:
            ctx.fail(f"no command {name!r}{nearest(name, known)}; commands: {', '.join(known)}")
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List the commands with the first line of their files, without importing them."""
        rows = []
        for name in self.list_commands(ctx):
            source = (self._folder / f"{name}.py").read_text(encoding="utf-8")
            doc = ast.get_docstring(ast.parse(source)) or ""
            rows.append((name, doc.partition("\n")[0]))
        with formatter.section("Commands"):
            formatter.write_dl(rows)

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command; report errors in one sentence, with a traceback only under -v."""
        try:
            return super().invoke(ctx)
        except (click.ClickException, click.exceptions.Exit, click.Abort):
            raise
        except BrokenPipeError:  # the reader of our output has left: click ends quietly
            raise
        except (MothtrapError, OSError) as err:
            self._show_traceback(ctx)
            raise Refusal(str(err)) from err
        except Exception as err:
            self._show_traceback(ctx)
            raise Refusal(
                f"mothtrap itself failed: {type(err).__name__}: {err}; this is a bug in mothtrap; "
                "`mothtrap -v ...` shows the traceback"
            ) from err

    @staticmethod
    def _show_traceback(ctx: click.Context) -> None:
        if ctx.obj:
            traceback.print_exc(file=sys.stderr)


def show_version(ctx: click.Context, _param: click.Parameter, value: bool) -> None:
    """Print the installed version and exit."""
    if not value or ctx.resilient_parsing:
        return
    from importlib.metadata import version

    click.echo(f"mothtrap {version('mothtrap')}")
    ctx.exit()
