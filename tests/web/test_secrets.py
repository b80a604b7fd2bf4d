"""A secret of a script is in no report, list, or answer, wherever the script left it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
from click.testing import CliRunner
from tests.core.test_masking import TOKENS, VALUE
from tests.web.conftest import Site
from tests.web.made_runs import MadeRun, exploding

from mothtrap.cli import main
from mothtrap.core.facts.captures import ToolError
from mothtrap.core.facts.record import ParametersLogged
from mothtrap.core.ledger import Ledger, Source, SourceTexts
from mothtrap.store import layout
from mothtrap.store.source_digests import digests_of

SECRETS = (*TOKENS.values(), VALUE)
EVERYTHING = " ".join(f"{name}: {token}" for name, token in TOKENS.items()) + f" password={VALUE}"
BIDI = "\u202e\u2066\x9b\x7f"


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run as an earlier version wrote it: nothing is masked in its files."""
    folder = tmp_path_factory.mktemp("secrets") / "runs"
    folder.mkdir()
    (folder / "train.py").write_text("\n" * 3 + f"login({EVERYTHING!r})\n")
    command = ("python", "train.py", "--token", VALUE, "--db", f"mysql://me:{VALUE}@h/d")
    run = MadeRun(folder / "x", command=(*command, *(f"--x={token}" for token in TOKENS.values())))
    ledger = Ledger(
        created_s=0.0,
        rank=0,
        framework="torch",
        arguments=command[1:],
        cwd=str(folder),
        facts={"sources": digests_of(("train.py",), folder), "versions": {"torch": EVERYTHING}},
    )
    layout.write_ledger(run.folder, ledger)
    source = Source(commit="2fb0858c" * 5, changed=("train.py",), changed_count=1, diff=EVERYTHING)
    layout.write_source(run.attempt, source)
    text = (folder / "train.py").read_text()
    layout.write_source_texts(run.folder, SourceTexts(files={"train.py": text}))
    run.train([1.0, 0.5, 0.2])
    finding = msgspec.structs.replace(
        exploding(1), message=f"{EVERYTHING} {BIDI}", evidence={"text": EVERYTHING}, why=EVERYTHING
    )
    run.find(finding)
    run.tell(
        ToolError(step=1, part="hook", error=EVERYTHING),
        ParametersLogged(step=1, values={"url": EVERYTHING, "odd": f"\x1b[2J{BIDI}"}, source="s"),
    )
    run.print_lines("".join(f"got {token}\n" for token in SECRETS[:-1]) + f"password={VALUE}\n")
    run.end()
    edited = MadeRun(folder / "y")  # the line with the secrets is another one
    changed = SourceTexts(files={"train.py": text.replace("login(", "log_in(")})
    layout.write_source_texts(edited.folder, changed)
    edited.train([1.0])
    edited.end()
    return folder


@pytest.fixture(scope="module")
def served(runs: Path) -> Iterator[Site]:
    """A server over it."""
    own = Site(runs)
    own.start()
    yield own
    own.stop()


def holds_no_secret(text: str) -> None:
    found = [secret for secret in SECRETS if secret in text]
    assert not found, f"{len(found)} secrets are shown"


COMMANDS = (
    *(("report", "x", "--format", form, "-o", "-") for form in ("html", "markdown", "json")),
    *(("report", "x", "--format", form, "-o", "-") for form in ("sarif", "junit", "github")),
    *(
        ("show", "x"),
        ("show", "x", "--all"),
        ("show", "x", "--format", "json"),
        ("show", "x", "--format", "json", "--all"),
    ),
    *(("ls",), ("ls", "--format", "json"), ("ls", "--format", "csv")),
    *(("doctor", "x"), ("diff", "x", "x"), ("diff", "x", "x", "--format", "json")),
    ("analyze", "x", "--format", "json"),
)


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_no_command_shows_a_secret(runs: Path, words: tuple[str, ...]) -> None:
    done = CliRunner().invoke(main, [*words, "--runs-dir", str(runs)])
    assert done.exit_code != 2, done.output
    assert len(done.output) > 50
    holds_no_secret(done.output)
    if words[0] not in ("report", "doctor") or "sarif" in words or "json" in words:
        assert not set(BIDI + "\x1b") & set(done.output)


def test_json_keeps_its_values(runs: Path) -> None:
    done = CliRunner().invoke(main, ["ls", "--format", "json", "--runs-dir", str(runs)])
    assert json.loads(done.stdout)[0]["parameters"]["odd"] == f"\x1b[2J{BIDI}"


@pytest.mark.parametrize(
    "view",
    [
        *("runs", "run?run=x", "findings?run=x", "logs?run=x", "record?run=x", "runs.csv"),
        *(
            "source?run=x&finding=FINDING",
            "diff?run=x&run=x",
            "diff?run=x&run=y",
            "compare?run=x",
            "names?run=x",
        ),
    ],
)
def test_no_answer_of_the_page_holds_a_secret(served: Site, view: str) -> None:
    fingerprint = served.json("/api/findings?run=x")["stories"][0]["root"]
    status, _, body = served.ask(f"/api/{view.replace('FINDING', fingerprint)}")
    assert status == 200
    holds_no_secret(body.decode("utf-8", "replace"))


def test_a_code_difference_has_the_line_without_its_secret(served: Site) -> None:
    body = json.dumps(served.json("/api/diff?run=x&run=y")["code"])
    assert "log_in(" in body
    assert "***" in body


def test_the_page_shows_the_lines_around_a_secret(served: Site) -> None:
    lines = served.json("/api/logs?run=x")["lines"]
    assert lines[0] == "got ***"
    assert len(lines) == len(SECRETS)
