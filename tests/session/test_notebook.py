"""Programs typed into cells of a notebook."""

from __future__ import annotations

import pytest
from tests.harness import running as harness
from tests.harness.running import environment

import mothtrap

IPython = pytest.importorskip("IPython")

CELLS = (
    "import torch, mothtrap\ntorch.manual_seed(0)",
    "model = torch.nn.Linear(4, 1)\n"
    "optimizer = torch.optim.SGD(model.parameters(), lr=0.01)\n"
    "watch = mothtrap.watch(model, optimizer, runs_dir='runs')",
    "for step in range(8):\n"
    "    optimizer.zero_grad()\n"
    "    x = torch.randn(16, 4)\n"
    "    loss = torch.log(model(x) - 1e3).mean()\n"
    "    loss.backward()\n"
    "    optimizer.step()\n"
    "    watch.step(loss=loss)",
    "watch.close()",
)
NOTEBOOK = """
from IPython.core.interactiveshell import InteractiveShell
shell = InteractiveShell.instance()
for cell in {cells!r}:
    shell.run_cell(cell, store_history=True).raise_error()
"""


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> mothtrap.Run:
    tmp_path = tmp_path_factory.mktemp("notebook")
    (tmp_path / "cells.py").write_text(NOTEBOOK.format(cells=CELLS), encoding="utf-8")
    environ = environment(
        JPY_SESSION_NAME="/home/me/first steps.ipynb", IPYTHONDIR=str(tmp_path / "ipython")
    )
    done = harness.run([*harness.PYTHON, "cells.py"], cwd=tmp_path, env=environ)
    assert done.returncode == 0, done.stderr
    [folder] = (tmp_path / "runs").iterdir()
    return mothtrap.open_run(folder)


def test_a_finding_points_into_its_cell_and_the_run_bears_the_notebooks_name(
    run: mothtrap.Run,
) -> None:
    assert run.id.startswith("first-steps-")
    [finding] = [f for f in run.findings if f.code == "NUM001"]
    assert finding.location == "cell 3, line 7"
    assert "cell 3, line 7" in run.verdict


def test_the_cells_are_kept_as_they_were_run(run: mothtrap.Run) -> None:
    [item] = [item for item in run.record.items if item.name == "notebook cells"]
    text = run.read_item(item).decode()
    assert text.startswith(f"# In [1]\n{CELLS[0]}\n\n# In [2]\n{CELLS[1]}")
    assert text.endswith(CELLS[-1])
