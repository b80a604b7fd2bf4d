"""Hostile input: crafted requests, and runs whose files were made to harm their reader.

Every request gets an answer of bounded size, other runs stay readable, and a secret next to the
runs and in the environment appears nowhere.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.parse import quote

import msgspec
import pytest
from click.testing import CliRunner
from tests.web.conftest import TOKEN, Site
from tests.web.made_runs import MadeRun, exploding

from mothtrap.cli import main
from mothtrap.core.marks import Mark
from mothtrap.store.marks import put_mark

CANARY = "c4n4ry-0f-the-m1ne"
MOST_BYTES = 4 << 20
MOST_S = 20.0
VIEWS = ("run", "findings", "names", "logs", "source?finding=f", "series?name=train/loss")
DEEP = "[" * 200_000


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of runs with one healthy run, and a secret next to it."""
    (tmp_path / "secret.env").write_text(f"PASSWORD={CANARY}\n" * 50)
    (tmp_path / "settings.py").write_text(f"PASSWORD = {CANARY!r}\n" * 50)
    monkeypatch.setenv("MOTHTRAP_NOTIFY", f"mailto://user:{CANARY}@example.com")
    monkeypatch.chdir(tmp_path)
    make(tmp_path / "runs" / "well")
    return tmp_path / "runs"


@pytest.fixture
def served(folder: Path) -> Iterator[Site]:
    """A server over it."""
    own = Site(folder)
    own.start()
    yield own
    own.stop()


def make(path: Path, **changes: object) -> MadeRun:
    """A run with a finding that has been changed."""
    run = MadeRun(path)
    run.train([1.0, 0.5, 0.2])
    run.find(msgspec.structs.replace(exploding(1), **changes))
    run.print_lines("one line\n")
    run.end()
    return run


def harmless(status: int, body: bytes) -> None:
    """Assert that an answer is small, and contains no secret."""
    assert status != 500, body[:500]
    assert len(body) < MOST_BYTES
    for secret in (CANARY, TOKEN, "Traceback"):
        assert secret.encode() not in body


REQUESTS: dict[str, tuple[str, str, dict[str, str], bytes]] = {
    "ratio of no run": ("GET", "/api/ratio", {}, b""),
    "ratio of one run": ("GET", "/api/ratio?run=well", {}, b""),
    "ratio of three runs": ("GET", "/api/ratio?run=well&run=well&run=well", {}, b""),
    "diff of no run": ("GET", "/api/diff", {}, b""),
    "figure of 5,000 digits": ("GET", f"/figure/{'9' * 5_000}?run=well&inside=1", {}, b""),
    "figure that is no number": ("GET", "/figure/%D9%A3x?run=well", {}, b""),
    "figure below 0": ("GET", "/figure/-1?run=well&inside=1", {}, b""),
    "index of 5,000 digits": (
        *("GET", f"/api/values?run=well&tensor=gradient:blocks.0.weight&index={'9' * 5_000}"),
        *({}, b""),
    ),
    "step of 5,000 digits": ("GET", f"/api/samples?run=well&at={'9' * 5_000}", {}, b""),
    "limit beyond every number": (
        *("GET", "/api/trial?run=well&name=train/loss&side=above&limit=1e999&for_steps=-9"),
        *({}, b""),
    ),
    "surrogates": ("GET", "/api/names?run=%ed%a0%80&query=%ed%b0%80", {}, b""),
    "a step that is no number": ("POST", "/api/control/replay?run=well", {}, b'{"step":NaN}'),
    "run is a path": ("GET", "/api/run?run=../secret.env", {}, b""),
    "run is absolute": ("GET", "/api/run?run=/etc", {}, b""),
    "run is a NUL": ("GET", "/api/run?run=%00", {}, b""),
    "run is no UTF-8": ("GET", "/api/run?run=%ff%fe", {}, b""),
    "run twice": ("GET", "/api/run?run=well&run=../x", {}, b""),
    "run is a word of JavaScript": ("GET", "/api/run?run=__proto__", {}, b""),
    "run is a URL": ("GET", "/api/run?run=s3://bucket/run", {}, b""),
    "run is very long": ("GET", f"/api/run?run={'x' * 60_000}", {}, b""),
    "ten thousand curves": ("GET", "/api/series?run=well" + "&name=a" * 10_000, {}, b""),
    "curve is a path": ("GET", "/api/series?run=well&name=../../secret.env", {}, b""),
    "numbers beyond all": ("GET", f"/api/series?run=well&name=x&px={'9' * 4000}", {}, b""),
    "number is none": ("GET", "/api/runs?begin=1e5", {}, b""),
    "axis is code": ("GET", "/api/series?run=well&name=train/lr&x=__import__('os')", {}, b""),
    "worker is far": ("GET", "/api/series?run=well&name=train/lr&worker=99999999", {}, b""),
    "limit is code": ("GET", "/api/trial?run=well&name=train/lr:SGD&limit=1;import", {}, b""),
    "curve breaks out of a rule": (
        *("GET", f"/api/trial?run=well&side=above&limit=1&name={quote(chr(34) * 3)}", {}, b""),
    ),
    "filter of a thousand words": ("GET", "/api/runs?query=" + "a+" * 10_000, {}, b""),
    "compare with all": ("GET", "/api/compare?name=a" + "&run=well" * 5_000, {}, b""),
    "cursor with a line break": ("GET", "/api/run?run=well&cursor=%0d%0aid:%201", {}, b""),
    "control by reading": ("GET", "/api/control/stop?run=well", {}, b""),
    "control is unknown": ("POST", "/api/control/rm?run=well", {}, b"{}"),
    "body is deep": ("POST", "/api/control/ack?run=well", {}, DEEP.encode()[:60_000]),
    "body is large": ("POST", "/api/control/ack?run=well", {}, b"x" * (5 << 20)),
    "body is no UTF-8": ("POST", "/api/control/ack?run=well", {}, b'{"finding": "\xff"}'),
    "hours are not finite": (
        *("POST", "/api/control/mute?run=well", {}, b'{"finding": "f", "hours": 1e999}'),
    ),
    "a field too many": (
        *("POST", "/api/control/ack?run=well", {}, b'{"finding": "f", "path": "/etc"}'),
    ),
    "tensors are a path": (
        *("POST", "/api/control/capture?run=well", {}, b'{"tensors": "../../*"}'),
    ),
    "cookies are broken": ("GET", "/api/runs", {"Cookie": "=;;=a\x07;" * 500}, b""),
    "host with a name in it": ("GET", "/api/runs", {"Host": "localhost@evil.example"}, b""),
    "host is forged": ("GET", "/api/runs", {"X-Forwarded-Host": "evil.example"}, b""),
    "method is odd": ("DELETE", "/api/runs", {"X-Mothtrap": "1"}, b""),
}


@pytest.mark.parametrize("kind", list(REQUESTS))
def test_a_crafted_request_has_a_short_answer(served: Site, kind: str) -> None:
    method, path, headers, body = REQUESTS[kind]
    headers = {"X-Mothtrap": "1"} | headers if method == "POST" else headers
    began_s = time.monotonic()
    status, _, answer = served.ask(path, method, body, **headers)
    harmless(status, answer)
    assert time.monotonic() - began_s < MOST_S
    assert served.json("/api/run?run=well")["steps"] == 3


def nested(depth: int) -> object:
    value: object = 1
    for _ in range(depth):
        value = [value]
    return value


def sparse(path: Path, size: int) -> None:
    with path.open("wb") as file:
        file.truncate(size)


def _segment(run: Path) -> Path:
    return max((run / "1" / "w0").rglob("*"), key=lambda p: p.stat().st_size if p.is_file() else -1)


def linked_source(path: Path) -> None:
    run = make(path, location="linked.py:3")
    (path.parent / "linked.py").symlink_to(path.parent.parent / "secret.env")
    run.write_ledger("linked.py")


def odd_mark(path: Path) -> None:
    make(path)
    text = "\x1b]0;x\x07</script>" * 1000
    put_mark(path, Mark(fingerprint="../../../x", kind="muted", at_s=float("inf"), note=text))


def after(change: Callable[[Path], object]) -> Callable[[Path], None]:
    """Make a run, then change its files."""

    def made(path: Path) -> None:
        make(path)
        change(path)

    return made


RUNS: dict[str, Callable[[Path], object]] = {
    "description is deep": after(lambda p: (p / "1" / "run.json").write_text(DEEP)),
    "description is huge": after(lambda p: sparse(p / "1" / "run.json", 1 << 30)),
    "description is a folder": after(
        lambda p: ((p / "1" / "run.json").unlink(), (p / "1" / "run.json").mkdir())
    ),
    "end is a pipe": after(
        lambda p: ((p / "1" / "end.json").unlink(), os.mkfifo(p / "1" / "end.json"))
    ),
    "end is a secret": after(
        lambda p: (
            (p / "1" / "end.json").unlink(),
            (p / "1" / "end.json").symlink_to(p.parent.parent / "secret.env"),
        )
    ),
    "attempt beyond all numbers": after(lambda p: (p / ("9" * 200)).mkdir()),
    "attempt is a link to itself": after(lambda p: (p / "2").symlink_to(p)),
    "segment of zeros": after(lambda p: _segment(p).write_bytes(bytes(_segment(p).stat().st_size))),
    "segment is huge": after(lambda p: sparse(_segment(p), 1 << 34)),
    "segment is noise": after(lambda p: _segment(p).write_bytes(os.urandom(100_000))),
    "control file is huge": after(
        lambda p: ((p / "control").mkdir(), sparse(p / "control" / "1-a.json", 1 << 30))
    ),
    "control file is a pipe": after(
        lambda p: ((p / "control").mkdir(), os.mkfifo(p / "control" / "1-a.json"))
    ),
    "marks are noise": after(
        lambda p: ((p / "marks").mkdir(), (p / "marks" / "1.json").write_text(DEEP))
    ),
    "mark is odd": odd_mark,
    "message of 8 MB": lambda p: make(p, message="x" * (8 << 20)),
    "message of escapes": lambda p: make(p, message="\x1b[2J\x1b]52;c;eA==\x07\u202e<b>\r\n"),
    "evidence is deep": lambda p: make(p, evidence={"x": nested(300)}),
    "evidence is huge": lambda p: make(p, evidence={f"k{n}": "x" * 100 for n in range(30_000)}),
    "100,000 layers": lambda p: make(p, layers=tuple(f"layer{n}" for n in range(100_000))),
    "layer is a path": lambda p: make(p, layers=("../../secret.env", "/etc/passwd")),
    "location is a secret": lambda p: make(p, location="../secret.env:1"),
    "location is a module": lambda p: make(p, location="../settings.py:1"),
    "location is absolute": lambda p: make(p, location=str(p.parent.parent / "secret.env") + ":1"),
    "location is a link": linked_source,
    "causes itself": lambda p: make(p, causes=("GRD101",), caused_by=("GRD101",)),
    "code is odd": lambda p: make(p, code="</td>", name="x' or 1=1"),
    "output of one endless line": lambda p: make(p).print_lines("y" * (3 << 20)),
    "output of escapes": lambda p: make(p).print_lines("\x1b[31m\x00\x08\u202e\r" * 2000),
    "name of escapes": lambda p: make(p.parent / "x\x1b[31m\n\u202ey"),
    "name is no UTF-8": lambda p: make(Path(os.fsdecode(bytes(p.parent) + b"/\xff\xfe"))),
    "name is a formula": lambda p: make(p.parent / "=cmd|' C'!A0"),
    "run is a link to the root": lambda p: p.symlink_to("/"),
}


@pytest.mark.parametrize("kind", list(RUNS))
def test_a_crafted_run_harms_no_one(served: Site, folder: Path, tmp_path: Path, kind: str) -> None:
    RUNS[kind](folder / "evil")
    began_s = time.monotonic()
    names = {entry.name for entry in folder.iterdir()} - {"well", "linked.py"}
    (name,) = names
    for view in VIEWS:
        mark = "&" if "?" in view else "?"
        quoted = quote(os.fsencode(name))
        harmless(*served.ask(f"/api/{view}{mark}run={quoted}")[::2])
    page = served.json("/api/runs")["page"]
    assert "well" in {row["name"] for row in page["rows"]}
    harmless(200, json.dumps(page).encode())
    for words in (["show", "--runs-dir", str(folder), name], ["ls", "--runs-dir", str(folder)]):
        printed(words, is_local=kind == "location is a module")
    report = tmp_path / "report.html"
    printed(["report", "--runs-dir", str(folder), name, "-o", str(report)])
    if report.exists():
        assert report.stat().st_size < 5 << 20
        assert CANARY not in report.read_text()
    assert time.monotonic() - began_s < 3 * MOST_S


def printed(words: list[str], *, is_local: bool = False) -> None:
    """Run a command: it ends in words, and moves no cursor.

    `is_local`: the terminal may quote a line of Python to the user whose file it is.
    """
    result = CliRunner().invoke(main, words)
    assert result.exit_code in (0, 1, 2), result.output
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    assert is_local or CANARY not in result.output
    assert "\x1b" not in result.output
