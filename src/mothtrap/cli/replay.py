"""Replay a recorded step, and find the operation and the rows that caused the failure."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from mothtrap.cli._group import Refusal
from mothtrap.cli._options import runs_dir_option

if TYPE_CHECKING:
    from mothtrap.session.replay_start import Start


class _WithCommand(click.Command):
    """A command whose options end at `--`; another command follows."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Separate the arguments after `--`."""
        if "--" in args:
            place = args.index("--")
            ctx.meta["mothtrap.command"] = tuple(args[place + 1 :])
            args = args[:place]
        return super().parse_args(ctx, args)

    def collect_usage_pieces(self, ctx: click.Context) -> list[str]:
        """The usage line, including the command."""
        pieces: list[Any] = [*super().collect_usage_pieces(ctx), "[-- COMMAND...]"]
        return pieces


@click.command(cls=_WithCommand, name="replay")
@click.argument("run", required=False)
@click.option("--step", type=int, metavar="N", help="Step to replay [default: the first bad one].")
@click.option(
    "--build",
    metavar="MODULE:FUNCTION",
    help="Function that returns (model, loss), instead of the script.",
)
@click.option("--eager", is_flag=True, help="Replay without torch.compile and scripting.")
@click.option(
    "--device", metavar="DEVICE", help="Device to replay on, e.g. cpu [default: the recorded one]."
)
@click.option(
    "--dtype",
    type=click.Choice(["float64", "float32"]),
    help="Compute in this type, to see whether precision is the cause.",
)
@click.option("--pdb", "debug", is_flag=True, help="Open a debugger at the failure.")
@click.option(
    "--as-test", "test_file", metavar="FILE", help="Write a test that reproduces the failure."
)
@click.option(
    "--repro",
    "repro_file",
    metavar="FILE",
    help="Write a script that fails without the training code.",
)
@click.option("--no-narrow", is_flag=True, help="Do not search for the operation and the rows.")
@click.option("--through", is_flag=True, help="Let the script train until it reaches the step.")
@click.option(
    "--cwd", metavar="DIR", help="Folder in which to start the script [default: as in the run]."
)
@click.option(
    "--anyway", is_flag=True, help="Replay even if the job is still running, without confirmation."
)
@click.option(
    "--timeout",
    type=float,
    default=600.0,
    show_default=True,
    metavar="S",
    help="Seconds to wait for the script.",
)
@click.option("--show-output", is_flag=True, help="Show what the script prints.")
@click.option("--format", "form", type=click.Choice(["text", "json"]), default="text")
@runs_dir_option
@click.pass_context
def command(
    ctx: click.Context,
    /,
    run: str | None,
    form: str,
    runs_dir: str | None,
    no_narrow: bool,
    timeout: float,
    show_output: bool,
    **asked: Any,
) -> None:
    """Replay a recorded step, and find the operation and the rows that caused the failure.

    Without RUN, the latest run.

    The script runs again up to its first step. There, mothtrap restores the recorded batch,
    weights, and random states, and the script's own code repeats the step. Then mothtrap ends the
    script. Everything before the first step happens again: the script loads data, and may write
    files. mothtrap shows the command that it starts, and asks first if you did not start the run on
    this machine.

    \b
    mothtrap replay                        the first bad step of the latest run
    mothtrap replay RUN --step 4771 --pdb  open a debugger at the failure
    mothtrap replay RUN --dtype float64    is the precision to blame?
    mothtrap replay RUN -- python train.py --data /elsewhere
    """
    from mothtrap.core import jsonable
    from mothtrap.core.config import load_config
    from mothtrap.report.replays import as_json, as_text, why_unreproduced, why_untested
    from mothtrap.report.style import Style
    from mothtrap.session.replay import ReplayOptions, replay
    from mothtrap.session.replay_results import keep_if_plain
    from mothtrap.store.layout import find_run
    from mothtrap.store.objects import is_url

    if asked["build"] and ":" not in asked["build"]:
        raise Refusal(f"--build {asked['build']!r} has no colon; expected module:function")
    if asked["debug"] and form == "json":
        raise Refusal("--pdb cannot be combined with --format json; omit one of them")
    for written, file in (("--as-test", asked["test_file"]), ("--repro", asked["repro_file"])):
        if file:
            _check_new_file(written, Path(file))
            if no_narrow or asked["debug"]:
                option = "--pdb" if asked["debug"] else "--no-narrow"
                raise Refusal(f"{written} needs the search for the failure; omit {option}")
    if asked["test_file"] and asked["test_file"] == asked["repro_file"]:
        raise Refusal("--as-test and --repro name the same file; use two names")
    config, _ = load_config(start=Path.cwd(), environ=os.environ, overrides={"runs_dir": runs_dir})
    if is_url(run or config.runs_dir):
        raise Refusal("a replay needs the folder of the run on this machine, not its URL")
    path = find_run(run, config.runs_dir)
    options = ReplayOptions(
        narrow=not no_narrow,
        timeout_s=timeout,
        command=ctx.meta.get("mothtrap.command", ()),
        **asked,
    )
    replayed = replay(path, options, starting=lambda start: _agreed(start, anyway=options.anyway))
    keep_if_plain(path, replayed, options)
    if show_output and replayed.output:
        click.echo(replayed.output, err=True, nl=False)
    snapshot, results = replayed.snapshot, replayed.results
    if form == "json":
        click.echo(jsonable.shown(as_json(snapshot, results, replayed.warnings)))
    else:
        converted = " on ".join(filter(None, (options.dtype, options.device)))
        text = as_text(
            snapshot,
            results,
            path.name,
            warnings=replayed.warnings,
            converted=converted,
            style=Style.of(sys.stdout),
        )
        click.echo(text)
    if options.test_file and not Path(options.test_file).exists():
        raise Refusal(f"no test was written: {why_untested(results)}")
    if options.repro_file and not Path(options.repro_file).exists():
        raise Refusal(f"no script was written: {why_unreproduced(results)}")


def _agreed(start: Start, *, anyway: bool) -> None:
    """Show the command to execute; ask for confirmation if it comes from another user."""
    click.echo(f"mothtrap: starting {start.words}", err=True)
    if not start.foreign or anyway:
        return
    if not sys.stdin.isatty():
        raise Refusal(
            f"this run was recorded on {start.foreign}, and the replay would use its command and "
            "folder. Check them, then pass --anyway, or pass your own with --cwd DIR -- COMMAND"
        )
    click.confirm(
        f"This run was recorded on {start.foreign}. Run its command here?", abort=True, err=True
    )


def _check_new_file(option: str, path: Path) -> None:
    if path.suffix != ".py":
        raise Refusal(f"{option} {path} is not a Python file; use a name that ends in .py")
    for there in (path, path.with_suffix(".npz")):
        if there.exists():
            raise Refusal(f"{option} would overwrite {there}; use another name, or remove it")
