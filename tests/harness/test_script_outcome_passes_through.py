"""Output, input and exit code of a script are the same under `mothtrap run`."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

import pytest
from tests.harness.running import (
    ITSELF,
    MOTHTRAP,
    PYTHON,
    environment,
    finish,
    observed,
    run,
    start,
)

TRAINING = """
import torch
torch.manual_seed(0)
model = torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(5):
    loss = (model(torch.randn(8, 4)) ** 2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print("trained", flush=True)
"""

ENDINGS = {
    "sys.exit(7)": "import sys\nsys.exit(7)",
    "sys.exit with a message": "import sys\nsys.exit('the data are gone')",
    "an exception": "def load(path):\n    raise FileNotFoundError(path)\nload('weights.pt')",
    "a chained exception": (
        "try:\n    {}['lr']\nexcept KeyError as err:\n    raise ValueError('no lr') from err"
    ),
    "an error inside backward": "loss.backward()",
    "a syntax error in an import": "import broken",
    "Ctrl-C": "import os, signal\nos.killpg(os.getpgid(0), signal.SIGINT)",
    "a segmentation fault": "import ctypes\nctypes.string_at(0)",
    "a signal": "import os, signal\nos.kill(os.getpid(), signal.SIGTERM)",
    "kill -9": "import os, signal\nos.kill(os.getpid(), signal.SIGKILL)",
    "os._exit(3)": "import os\nos._exit(3)",
    "an error at exit": (
        "import atexit\nclass Saver:\n    def __repr__(self): return 'Saver'\n"
        "    def __call__(self): 1 / 0\natexit.register(Saver())"
    ),
    "output at exit": "import atexit\natexit.register(print, 'bye')\nprint('end')",
    "an exception in a module": "model(torch.zeros(2, 5))",
    "an exception in a thread": (
        "import threading\nt = threading.Thread(target=lambda: 1 / 0, name='worker')\n"
        "t.start()\nt.join()"
    ),
    "a daemon thread": (
        "import threading\nthreading.Thread(target=threading.Event().wait, daemon=True).start()"
    ),
    "output in both streams": (
        "import sys\nfor i in range(3):\n    print('out', i)\n    print('err', i, file=sys.stderr)"
    ),
    "bytes that are no text": "import sys\nsys.stdout.buffer.write(b'\\x00\\xc3\\xa4\\n')",
    "its own hook": (
        "import sys\nsys.excepthook = lambda *error: print('hook', error[0].__name__)\n1 / 0"
    ),
    "warnings": "import warnings\nwarnings.warn('odd data')",
}
BY_ITSELF = {"Ctrl-C"}
"""Endings that need their own Python process instead of one forked from a preloaded process.

`test_terminal_is_not_torn.py` presses Ctrl-C in the tests that run by default.
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "broken.py").write_text("def (:\n", encoding="utf-8")
    return tmp_path


@pytest.mark.parametrize(
    "ending",
    [pytest.param(name, marks=[pytest.mark.full] if name in BY_ITSELF else []) for name in ENDINGS],
)
def test_every_ending_is_as_without_observation(ending: str, folder: Path) -> None:
    script = folder / "train.py"
    script.write_text(TRAINING + ENDINGS[ending], encoding="utf-8")
    python = ITSELF if ending in BY_ITSELF else PYTHON
    plain = run([*python, script], cwd=folder)
    command = observed([script], runs_dir=folder / "runs", name="seen", python=python)
    seen = run(command, cwd=folder)
    assert seen.stdout == plain.stdout
    assert plain.stderr in seen.stderr, f"expected in one piece:\n{plain.stderr}"
    assert seen.returncode == plain.returncode
    assert (folder / "runs" / "seen").is_dir()


SURROUNDINGS = """
import json, os, sys
print(json.dumps({
    "argv": sys.argv, "path": sys.path[0], "name": __name__, "file": __file__, "package": __package__,
    "executable": sys.executable, "cwd": os.getcwd(), "stdin": sys.stdin.read(),
    "dont_write_bytecode": sys.dont_write_bytecode, "warnoptions": sys.warnoptions,
    "hooks": [sys.excepthook is sys.__excepthook__, sys.displayhook is sys.__displayhook__],
    "stdout": type(sys.stdout).__name__, "encoding": sys.stdout.encoding,
}))
"""  # noqa: E501

LIKE_OURS = ["--name", "x", "--runs-dir", "y", "--capture", "off", "--", "-m", "-v", "--help", ""]


def test_a_script_sees_the_same_surroundings(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(SURROUNDINGS, encoding="utf-8")
    target = ["train.py", *LIKE_OURS]
    plain = run([sys.executable, *target], cwd=tmp_path, text="two\nlines\n")
    command = observed(target, runs_dir=tmp_path / "runs", name="seen", python=ITSELF)
    seen = run(command, cwd=tmp_path, text="two\nlines\n")
    assert "two\\nlines" in plain.stdout
    assert seen.stdout == plain.stdout
    assert seen.returncode == plain.returncode == 0


def test_a_module_sees_the_same_surroundings(tmp_path: Path) -> None:
    package = tmp_path / "project" / "training"
    package.mkdir(parents=True)
    for path in (package.parent / "__init__.py", package / "__init__.py"):
        path.write_text("", encoding="utf-8")
    (package / "train.py").write_text(SURROUNDINGS, encoding="utf-8")
    target = ["-m", "project.training.train", *LIKE_OURS]
    plain = run([sys.executable, *target], cwd=tmp_path)
    command = observed(target, runs_dir=tmp_path / "runs", name="seen", python=ITSELF)
    seen = run(command, cwd=tmp_path)
    assert '"package": "project.training"' in plain.stdout
    assert seen.stdout == plain.stdout
    assert seen.returncode == plain.returncode == 0


def test_the_console_script_is_the_same_door(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(TRAINING, encoding="utf-8")
    script = Path(sys.executable).parent / "mothtrap"
    words = observed(["--", *PYTHON, "train.py"], runs_dir=tmp_path, name="seen")
    command = [script, *words[len(MOTHTRAP) :]]
    seen = run(command, cwd=tmp_path)
    assert (seen.returncode, seen.stdout) == (0, "trained\n")
    assert (tmp_path / "seen").is_dir()


def test_a_script_without_torch_gets_a_verdict_and_no_import(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text("import sys\nprint('torch' in sys.modules, 'pyarrow' in sys.modules)")
    command = observed([script], runs_dir=tmp_path, name="seen", python=ITSELF)
    seen = run(command, cwd=tmp_path)
    assert (seen.returncode, seen.stdout) == (0, "False False\n")
    assert "nothing was observed" in seen.stderr.lower()


def test_a_sitecustomize_of_ones_own_still_runs(tmp_path: Path) -> None:
    site = tmp_path / "site"
    site.mkdir()
    (site / "sitecustomize.py").write_text("print('mine', flush=True)", encoding="utf-8")
    script = tmp_path / "train.py"
    script.write_text(
        "import os, sys\nprint('theirs', sys.path.count(os.environ['OWN_SITE']))", encoding="utf-8"
    )
    env = environment(PYTHONPATH=str(site), OWN_SITE=str(site))
    plain = run([sys.executable, script], cwd=tmp_path, env=env)
    # The launcher is a Python process too and runs it for itself; the child must run it again.
    command = observed([script], runs_dir=tmp_path, name="seen", python=ITSELF)
    seen = run(command, cwd=tmp_path, env=env)
    assert plain.stdout == "mine\ntheirs 1\n"
    assert seen.stdout == "mine\n" + plain.stdout


def test_switched_off_it_leaves_the_script_alone(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text(TRAINING, encoding="utf-8")
    command = observed([script], runs_dir=tmp_path / "runs", name="seen")
    seen = run(command, cwd=tmp_path, env=environment(MOTHTRAP_DISABLE="1"))
    assert (seen.returncode, seen.stdout) == (0, "trained\n")
    assert not list(tmp_path.glob("runs/seen/*/w*"))


def test_terminating_the_launcher_ends_the_script(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text(
        TRAINING + "import os, time\nprint(os.getpid(), flush=True)\ntime.sleep(600)",
        encoding="utf-8",
    )
    process = start(observed([script], runs_dir=tmp_path / "runs", name="seen"), cwd=tmp_path)
    assert process.stdout is not None
    assert process.stdout.readline() == "trained\n"
    child = int(process.stdout.readline())
    process.terminate()
    seen = finish(process)  # ends when the last holder of the pipes, the script, has gone
    assert seen.returncode == -signal.SIGTERM
    with pytest.raises(ProcessLookupError):
        os.kill(child, 0)
