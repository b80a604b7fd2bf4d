"""The start-up hook waits for a framework and leaves everything else unchanged."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from tests.harness.running import Outcome, environment, run

from mothtrap.core.config import Config
from mothtrap.session import launch


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Create a folder that follows the hook's own on PYTHONPATH."""
    (tmp_path / "attempt").mkdir()
    (tmp_path / "site").mkdir()
    return tmp_path


def child(code: str, folder: Path, monkeypatch: pytest.MonkeyPatch, **variables: str) -> Outcome:
    """Run code as a process of an observed job."""
    monkeypatch.setenv("PYTHONPATH", str(folder / "site"))
    hooked = launch.child_environment(folder / "attempt", Config())
    mine = {k: v for k, v in hooked.items() if k.startswith("MOTHTRAP_") or k == "PYTHONPATH"}
    return run([sys.executable, "-c", code], cwd=folder, env=environment(**mine, **variables))


def test_without_a_framework_nothing_of_mothtrap_is_loaded(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    code = "import sys, json; print([n for n in sys.modules if n.startswith('mothtrap')])"
    assert child(code, folder, monkeypatch).stdout == "[]\n"


def test_a_hidden_sitecustomize_runs_and_its_error_is_shown_as_ever(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "site" / "sitecustomize.py").write_text("print('mine')\n1 / 0\n", encoding="utf-8")
    seen = child("import sys; print(type(sys.meta_path[0]).__name__)", folder, monkeypatch)
    assert seen.stdout == "mine\n_AfterImport\n"
    assert "ZeroDivisionError" in seen.stderr


def test_switched_off_only_the_hidden_one_runs(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "site" / "sitecustomize.py").write_text("print('mine')\n", encoding="utf-8")
    code = "import sys; print(type(sys.meta_path[0]).__name__ == '_AfterImport')"
    seen = child(code, folder, monkeypatch, MOTHTRAP_DISABLE="1")
    assert seen.stdout == "mine\nFalse\n"
    seen = child(code, folder, monkeypatch, MOTHTRAP_DISABLE="0")
    assert seen.stdout == "mine\nTrue\n"


def test_a_framework_that_is_not_installed_is_missing_as_ever(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mothtrap.core.registry.names", lambda package: ("jax_of_nobody",))
    code = (
        "try:\n    import jax_of_nobody\n"
        "except ModuleNotFoundError as err:\n    print(err.name, err)\n"
    )
    seen = child(code, folder, monkeypatch)
    assert seen.stdout == "jax_of_nobody No module named 'jax_of_nobody'\n"
    assert "Exception ignored" not in seen.stderr


def test_an_error_inside_a_framework_passes(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / "site" / "torch.py").write_text("raise OSError('no driver')\n", encoding="utf-8")
    seen = child("import torch", folder, monkeypatch)
    assert seen.returncode == 1
    assert seen.stderr.endswith("OSError: no driver\n")
    assert "mothtrap: " not in seen.stderr
    plain = run([sys.executable, "-c", "import torch"], cwd=folder / "site")
    assert seen.stderr == plain.stderr


def test_a_framework_that_is_imported_at_the_second_try_is_watched(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "site" / "torch.py").write_text(
        "import os\nif 'DRIVER' not in os.environ:\n    raise OSError('no driver')\n",
        encoding="utf-8",
    )
    code = (
        "import os\ntry:\n    import torch\nexcept OSError:\n    os.environ['DRIVER'] = 'there'\n"
        "import torch\nprint(torch.__name__)\n"
    )
    seen = child(code, folder, monkeypatch)
    assert seen.stdout == "torch\n"
    assert seen.stderr.count("mothtrap: cannot watch torch in this process (") == 1


def test_a_framework_that_the_script_looked_for_before_its_import_is_watched(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    code = (
        "import importlib.util, sys\n"
        "assert importlib.util.find_spec('torch') is not None\n"
        "assert 'torch' not in sys.modules\n"
        "import torch\n"
        "print('mothtrap.adapters.torch' in sys.modules)\n"
    )
    assert child(code, folder, monkeypatch).stdout == "True\n"


def test_what_cannot_be_watched_is_said_once_and_works(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "site" / "torch.py").write_text("name = 'not that torch'\n", encoding="utf-8")
    code = (
        "import torch, importlib, sys\n"
        "print(torch.name, 'exec_module' in vars(torch.__spec__.loader))\n"
        "print(importlib.reload(torch).name)\n"
    )
    seen = child(code, folder, monkeypatch)
    assert seen.stdout == "not that torch False\nnot that torch\n"
    (line,) = seen.stderr.splitlines()
    assert line.startswith("mothtrap: cannot watch torch in this process (")
    assert line.endswith("); training continues unobserved")


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ("import framework_of_nobody\n", "False True True\n"),
        ("def later():\n    import framework_of_nobody\nlater()\n", "False True False\n"),
        ("import gc\ngc.disable()\nimport framework_of_nobody\n", "False False False\n"),
        ("kept = [[] for _ in range(300_000)]\nimport framework_of_nobody\n", "False True False\n"),
        ("import broken_of_nobody\n", "True True\n"),
    ],
    ids=["at the top", "in a function", "collection is off", "much was made before", "broken"],
)
def test_garbage_collection_pauses_while_a_framework_is_imported(
    folder: Path, monkeypatch: pytest.MonkeyPatch, code: str, expected: str
) -> None:
    names = ("framework_of_nobody", "broken_of_nobody")
    monkeypatch.setattr("mothtrap.core.registry.names", lambda package: names)
    told = "import gc\nprint(gc.isenabled(), end=' ')\n"
    (folder / "site" / "framework_of_nobody.py").write_text(told, encoding="utf-8")
    (folder / "site" / "broken_of_nobody.py").write_text("1 / 0\n", encoding="utf-8")
    if "broken" in code:
        code = f"try:\n    {code}except ZeroDivisionError:\n    pass\n"
    seen = child(
        f"{code}import gc\nprint(gc.isenabled(), gc.get_freeze_count() > 0)", folder, monkeypatch
    )
    assert seen.stdout == expected


def test_objects_of_the_script_are_deleted_before_the_framework(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`inspect` leaves a copy of `sys.modules`; XGBoost's tables were deleted after XGBoost."""
    monkeypatch.setattr("mothtrap.core.registry.names", lambda package: ("framework_of_nobody",))
    text = (
        "import inspect\n"
        "inspect.signature(str.split)\n"
        "LIBRARY = object()\n"
        "class Table:\n"
        "    def __del__(self):\n"
        "        assert LIBRARY is not None\n"
    )
    (folder / "site" / "framework_of_nobody.py").write_text(text, encoding="utf-8")
    code = "import framework_of_nobody\ntable = framework_of_nobody.Table()\n"
    seen = child(code, folder, monkeypatch)
    assert "Exception ignored" not in seen.stderr
