"""Actions of a job, from their configuration to the messages; a secret appears nowhere."""

from __future__ import annotations

import json
import os
import signal
import time
from pathlib import Path

import pytest
from tests.actions.servers import Received, free_port, mail_server, web_server
from tests.harness.running import ITSELF, MOTHTRAP, PYTHON, Outcome, environment, run, start
from tests.session.children import wait_until

from mothtrap.reader.run import open_run
from mothtrap.store.journal import read_journal, unconfirmed
from mothtrap.store.layout import list_runs

CANARY = "c4n4ry"
SCRIPT = """
import sys
import torch

kind = sys.argv[1]
torch.manual_seed(0)
model = torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), 0.01)
if kind == "watched":
    import mothtrap

    mothtrap.watch(model, optimizer, name="r1")
for step in range(60):
    x = torch.randn(8, 4)
    if step >= 20 and kind != "healthy":
        x = x * float("nan")
    optimizer.zero_grad()
    torch.nn.functional.mse_loss(model(x), torch.zeros(8, 1)).backward()
    optimizer.step()
if kind == "crashing":
    raise RuntimeError("the end")
"""
FUNCTION = """
import json
from pathlib import Path

def on_event(event):
    with open(Path(__file__).parent / "called.jsonl", "a") as file:
        file.write(json.dumps([event.kind, event.finding.code if event.finding else ""]) + "\\n")
"""


def _job(folder: Path, config: str, kind: str) -> Outcome:
    (folder / "mothtrap.toml").write_text(config)
    (folder / "train.py").write_text(SCRIPT)
    (folder / "reacting_functions.py").write_text(FUNCTION)
    command = [*PYTHON, "train.py", kind]
    if kind != "watched":
        command = [*MOTHTRAP, "run", "--name", "r1", "train.py", kind]
    return run(command, cwd=folder, env=environment())


def _mail_url(port: int) -> str:
    where = "from=a@example.com&to=b@example.com&mode=insecure"
    return f"mailto://user:{CANARY}@127.0.0.1:{port}/?{where}"


@pytest.mark.parametrize(
    "kind", ["crashing", "watched", pytest.param("nan", marks=pytest.mark.full)]
)
def test_mail_webhook_and_function_tell_of_a_fault_once(tmp_path: Path, kind: str) -> None:
    with mail_server() as (mails, _), web_server() as hooks:
        config = f"""
[[actions]]
do = ["webhook", "function"]
webhook = {{ url = "{hooks.url}/{CANARY}", secret = "{CANARY}" }}
function = "reacting_functions:on_event"
[[actions]]
when = {{ events = ["crashed"] }}
name = "end"
do = ["webhook"]
webhook = "{hooks.url}/end"
"""
        outcome = _job(tmp_path, config, kind)
        assert outcome.returncode == (kind == "crashing"), outcome.stderr
    told = [json.loads(hook.body) for hook in hooks.received if hook.path != "/end"]
    assert [event["type"] for event in told] == ["mothtrap.opened"], "one message for the story"
    called = [json.loads(line) for line in (tmp_path / "called.jsonl").read_text().splitlines()]
    assert called == [["opened", told[0]["data"]["finding"]["code"]]]
    ends = [hook for hook in hooks.received if hook.path == "/end"]
    assert len(ends) == (kind == "crashing")
    assert unconfirmed(read_journal(tmp_path / "runs/r1")) == ()
    del mails
    _nowhere(tmp_path, outcome)


def test_a_letter_that_could_not_be_sent_is_sent_by_the_next_start(tmp_path: Path) -> None:
    port = free_port()
    config = f'[[actions]]\ndo = ["notify"]\nnotify = ["{_mail_url(port)}"]\n'
    outcome = _job(tmp_path, config, "nan")
    assert "message is not delivered" in outcome.stderr
    assert len(unconfirmed(read_journal(tmp_path / "runs/r1"))) == 1
    _nowhere(tmp_path, outcome)
    with mail_server(port) as (server, _):
        again = run([*MOTHTRAP, "actions", "r1", "--send"], cwd=tmp_path, env=environment())
        assert again.stdout == "r1: 1 sent, 0 not delivered\n", again.stderr
    assert len(server.mails) == 1
    again = run([*MOTHTRAP, "actions", "r1", "--send"], cwd=tmp_path, env=environment())
    assert again.stdout == "r1: 0 sent, 0 not delivered\n"


def test_a_letter_arrives_when_its_server_is_up_again_while_the_job_runs(tmp_path: Path) -> None:
    port = free_port()
    config = f'[[actions]]\ndo = ["notify"]\nnotify = ["{_mail_url(port)}"]\n'
    (tmp_path / "mothtrap.toml").write_text(config)
    (tmp_path / "train.py").write_text(SCRIPT.replace("range(60)", "range(10**9)"))
    job = start([*MOTHTRAP, "run", "--name", "r1", "train.py", "nan"], cwd=tmp_path)
    wait_until(lambda: bool(unconfirmed(read_journal(tmp_path / "runs/r1"))))
    with mail_server(port) as (server, _):
        wait_until(lambda: not unconfirmed(read_journal(tmp_path / "runs/r1")))
        run([*MOTHTRAP, "stop", "r1"], cwd=tmp_path, env=environment())
        job.communicate(timeout=120)
    assert len(server.mails) == 1
    assert job.returncode == 3


def test_a_launcher_that_was_killed_is_followed_by_one_that_sends_what_it_left(
    tmp_path: Path,
) -> None:
    hung = []

    def answer(request: Received) -> tuple[int, dict[str, str], bytes]:
        hung.append(request)
        return (503, {}, b"") if len(hung) < 2 else (200, {}, b"")

    endless = SCRIPT.replace("range(60)", "range(10**9)")
    with web_server(answer) as server:
        config = f'[[actions]]\ndo = ["webhook"]\nwebhook = "{server.url}"\n'
        (tmp_path / "mothtrap.toml").write_text(config)
        (tmp_path / "train.py").write_text(endless)
        words = ["--name", "r1", "--", *PYTHON, "train.py", "nan"]
        command = [*ITSELF, "-m", "mothtrap", "run", *words]
        job = start(command, cwd=tmp_path)
        wait_until(lambda: bool(hung))
        os.killpg(job.pid, signal.SIGKILL)
        job.communicate()
        assert len(unconfirmed(read_journal(tmp_path / "runs/r1"))) == 1
        (tmp_path / "train.py").write_text(SCRIPT)
        again = [*MOTHTRAP, "run", "--name", "r1", "--resume", "train.py", "healthy"]
        outcome = run(again, cwd=tmp_path, env=environment())
        assert outcome.returncode == 0, outcome.stderr
    ids = [request.headers["idempotency-key"] for request in server.received]
    assert len(ids) >= 2
    assert len(set(ids)) == 1


@pytest.mark.parametrize(
    ("config", "complaint"),
    [
        ('do = ["notfy"]', "did you mean 'notify'"),
        ('do = ["notify"]', "MOTHTRAP_NOTIFY"),
        (f'do = ["notify"]\nnotify = ["nope://{CANARY}"]', "its scheme is 'nope'"),
        (f'do = ["webhook"]\nwebhook = "htp://{CANARY}"', "http:// or https://"),
        ('do = ["stop"]\nwhen = { rules = ["NUMM"] }', "did you mean 'NUM'"),
        ('do = ["function"]\nfunction = "nowhere_at_all:f"', "no module 'nowhere_at_all'"),
    ],
)
def test_what_cannot_work_is_refused_before_the_script_starts(
    tmp_path: Path, config: str, complaint: str
) -> None:
    outcome = _job(tmp_path, f"[[actions]]\n{config}\n", "nan")
    assert outcome.returncode == 2
    assert complaint in outcome.stderr
    assert "mothtrap.toml: actions[0]" in outcome.stderr or "MOTHTRAP_NOTIFY" in outcome.stderr
    assert CANARY not in outcome.stderr
    assert not (tmp_path / "runs").exists()


def test_a_healthy_run_is_left_in_peace(tmp_path: Path) -> None:
    with web_server() as server:
        config = f'[[actions]]\ndo = ["stop", "webhook"]\nwebhook = "{server.url}"\n'
        outcome = _job(tmp_path, config, "healthy")
    assert outcome.returncode == 0, outcome.stderr
    assert server.received == []


def test_a_job_is_stopped_by_a_command(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(SCRIPT.replace("range(60)", "range(10**9)"))
    job = start([*MOTHTRAP, "run", "--name", "r1", "train.py", "healthy"], cwd=tmp_path)
    wait_until(lambda: any(open_run(p).steps > 5 for p in list_runs(tmp_path / "runs")))
    asked = run([*MOTHTRAP, "stop", "r1", "--reason", "lunch"], cwd=tmp_path, env=environment())
    assert asked.returncode == 0, asked.stderr
    _, errors = job.communicate(timeout=120)
    assert job.returncode == 3
    stopped = open_run(tmp_path / "runs/r1")
    assert asked.stdout == f"r1: stopped before step {stopped.stopped_at}\n"
    assert stopped.stop_reason == "lunch"
    assert "training is stopped before step" in errors


def test_a_job_that_does_not_obey_is_ended_by_a_signal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from mothtrap.core.config import Config
    from mothtrap.session import reacting

    outcome = _job(tmp_path, "", "healthy")
    assert outcome.returncode == 0
    sent: list[tuple[int, int]] = []
    monkeypatch.setattr(reacting.os, "kill", lambda pid, number: sent.append((pid, number)))
    monkeypatch.setattr(reacting, "NO_ANSWER_S", 0.0)
    monkeypatch.setattr(reacting, "LOOK_EVERY_S", 3600.0)
    config = Config(actions=({"do": ["stop"]},))
    executor = reacting.Executor(tmp_path / "runs/r1/1", config, print, lambda: 12345)
    executor._look()
    assert executor._parts is not None
    executor._parts[1].stop_asked_s = time.monotonic()
    for _ in range(4):
        executor._look()
    executor.close()
    assert sent == [(12345, signal.SIGTERM), (12345, signal.SIGKILL)]
    assert executor.was_killed


def _nowhere(folder: Path, outcome: Outcome) -> None:
    """Search for the canary in the output and in every file of the run."""
    assert CANARY not in outcome.stdout + outcome.stderr
    for form in ("full", "json"):
        shown = run([*MOTHTRAP, "show", "r1", "--format", form], cwd=folder, env=environment())
        assert CANARY not in shown.stdout + shown.stderr
    settings = run([*MOTHTRAP, "config"], cwd=folder, env=environment())
    assert settings.returncode == 0
    assert CANARY not in settings.stdout + settings.stderr
    kept = [path for path in (folder / "runs").rglob("*") if path.is_file()]
    assert kept
    for path in kept:
        assert CANARY.encode() not in path.read_bytes(), path
