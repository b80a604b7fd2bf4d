"""`mothtrap ui`."""

from __future__ import annotations

import re
import signal
import socket
import subprocess
import sys
import urllib.request
from pathlib import Path

import pytest
from tests.cli.stored_run import store_run
from tests.harness.running import environment

pytest.importorskip("uvicorn", reason="the extra web is not installed")


def start(tmp_path: Path, *args: str) -> subprocess.Popen[str]:
    """Serve the runs of a folder, with a separate cache."""
    return subprocess.Popen(
        [sys.executable, "-m", "mothtrap", "ui", *args],
        cwd=tmp_path,
        env=environment(MOTHTRAP_CACHE=str(tmp_path / "cache"), SSH_CONNECTION="a 1 host 22"),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def first_line(server: subprocess.Popen[str]) -> str:
    assert server.stdout is not None
    return server.stdout.readline().strip()


def ended(server: subprocess.Popen[str]) -> tuple[int, str]:
    server.send_signal(signal.SIGINT)
    _, said = server.communicate(timeout=30)
    return server.returncode, said


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    store_run(tmp_path / "runs" / "clean")
    return tmp_path


def test_the_printed_address_opens_the_page(runs: Path) -> None:
    server = start(runs, "--port", "0")
    url = first_line(server)
    assert re.fullmatch(r"http://127\.0\.0\.1:\d+/\?token=[\w-]{43}", url)
    opener = urllib.request.build_opener(urllib.request.HTTPCookieProcessor())
    with opener.open(url, timeout=20) as answer:
        assert b"<title>mothtrap</title>" in answer.read()
        assert "token" not in answer.url
    _, said = ended(server)
    assert re.search(r"ssh -L \d+:localhost:\d+ \S+@host", said)
    again = start(runs, "--port", "0")
    assert first_line(again).partition("token=")[2] == url.partition("token=")[2]
    ended(again)


def test_one_run_opens_on_its_overview(runs: Path) -> None:
    server = start(runs, "runs/clean", "--port", "0")
    assert first_line(server).endswith("#/overview?run=clean")
    ended(server)


def test_a_port_that_is_taken_gives_the_next_or_a_sentence(runs: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        server = start(runs, "--port", port)
        _, said = server.communicate(timeout=30)
        assert server.returncode == 2
        assert f"cannot serve at 127.0.0.1:{port}: another program uses it" in said


def test_a_socket_of_the_user_serves_too(runs: Path) -> None:
    server = start(runs, "--uds", "ui.sock")
    token = first_line(server).partition("token=")[2]
    path = runs / "ui.sock"
    assert path.stat().st_mode & 0o777 == 0o600
    with socket.socket(socket.AF_UNIX) as client:
        client.connect(str(path))
        head = f"Host: localhost\r\nAuthorization: Bearer {token}\r\nConnection: close"
        client.sendall(f"GET /api/runs HTTP/1.1\r\n{head}\r\n\r\n".encode())
        assert b"200 OK" in client.recv(4096)
    ended(server)
    assert not path.exists()


def test_another_address_is_served_with_a_warning(runs: Path) -> None:
    server = start(runs, "--host", "127.0.0.1", "--port", "0")
    first_line(server)
    _, said = ended(server)
    assert "has the token can see these runs" in said


def test_a_folder_that_is_not_there_is_named(runs: Path) -> None:
    server = start(runs, "nope")
    _, said = server.communicate(timeout=30)
    assert server.returncode == 2
    assert "nope does not exist" in said
