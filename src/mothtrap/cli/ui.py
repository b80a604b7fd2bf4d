"""Show runs, findings, curves, and output as a page in the browser."""

from __future__ import annotations

import os
import socket
import sys
from pathlib import Path

import click

from mothtrap.cli._group import Refusal
from mothtrap.cli._options import runs_folder


@click.command(name="ui")
@click.argument("runs", required=False)
@click.option(
    "--port", type=click.IntRange(0, 65535), help="Port [default: 8765, or the next free one]."
)
@click.option("--uds", metavar="PATH", default="", help="Serve on a Unix socket instead of a port.")
@click.option("--host", metavar="HOST", help="Serve on an address that others can reach.")
@click.option(
    "--allowed-host",
    multiple=True,
    metavar="NAME",
    help="A host name that browsers may use for the page; can be repeated.",
)
@click.option(
    "--allow-replay", "replays", is_flag=True, help="Let the page start replays on this machine."
)
@click.option("--open", "opens", is_flag=True, help="Open the page in a browser.")
def command(
    runs: str | None,
    port: int | None,
    uds: str,
    host: str | None,
    allowed_host: tuple[str, ...],
    replays: bool,
    opens: bool,
) -> None:
    """Show runs, findings, curves, and output as a page in the browser.

    RUNS is a folder of runs, one run, or a URL such as s3://bucket/runs [default: ./runs]. Only you
    can open the page: the server listens on this machine only, and requires a token.

    \b
    mothtrap ui
    mothtrap ui runs/digits-20261121-014613
    """
    from mothtrap.core.config import load_config
    from mothtrap.core.errors import MissingExtraError
    from mothtrap.store.objects import is_url

    try:
        from mothtrap.web import server
    except ImportError as err:
        if (err.name or "").partition(".")[0] not in ("starlette", "uvicorn", "anyio"):
            raise
        raise MissingExtraError("mothtrap ui", str(err.name), "web") from err
    from mothtrap.web.listing import RunsFolder

    config, _ = load_config(start=Path.cwd(), environ=os.environ, overrides={"runs_dir": runs})
    if not is_url(config.runs_dir):
        runs_folder(config.runs_dir, given=runs is not None)
    if host is not None and uds:
        raise Refusal("--host and --uds cannot be combined; pass only one of them")
    if host is not None and replays:
        raise Refusal(
            "--allow-replay lets everyone who can open the page run scripts, so it cannot be "
            "combined with --host; omit --host, and use ssh -L"
        )
    folder = RunsFolder(config.runs_dir)
    bound = server.listen(host or server.LOOPBACK, port, uds)
    chosen = 0 if uds else int(bound.getsockname()[1])
    address = server.Address(host=host or server.LOOPBACK, port=chosen, uds=uds)
    token = server.token_of(folder)
    url = address.url(token, folder.single)
    if host is not None:
        click.echo(
            f"warning: everyone who can reach {host}:{chosen} and has the token can see these "
            "runs, and the traffic is not encrypted; without --host, and with ssh -L, it is safer",
            err=True,
        )
    if port is None and not uds and chosen != server.PORT:
        click.echo(f"port {server.PORT} is taken; serving on port {chosen}", err=True)
    click.echo(url)
    if forward := server.forward_line(address):
        click.echo(f"from your own machine: {forward}", err=True)
    click.echo("Ctrl-C stops the server", err=True)
    sys.stdout.flush()
    if opens:
        click.launch(url)
    allowed = (*allowed_host, *((host, socket.gethostname()) if host else ()))
    try:
        app = server.build(folder, token, allowed, addresses=host is not None, replays=replays)
        server.http_server(app).run(sockets=[bound])
    finally:
        if uds:
            Path(uds).unlink(missing_ok=True)
