from __future__ import annotations

import ast
import math
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.syntax_trees import nodes, parsed
from tests.test_house import SOURCE, named, plant, whole

from mothtrap.statistics.products import BLOCK, between, correlation, dot, norm

BESIDE_TRAINING = ("adapters", "capture", "session", "statistics", "tracing")
BLAS = {
    f"numpy.{name}" for name in ("corrcoef", "cov", "dot", "inner", "linalg.norm", "matmul", "vdot")
}

PRODUCT = re.compile("|".join(name.rpartition(".")[2] for name in BLAS))


@given(st.integers(0, 3 * BLOCK), st.integers(0, 9))
def test_a_dot_product_is_that_of_float64(size: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    first, second = (rng.normal(size=size).astype(np.float32) for _ in range(2))
    exact = math.fsum((first.astype(np.float64) * second.astype(np.float64)).tolist())
    assert dot(first, second) == pytest.approx(exact, rel=1e-5, abs=1e-3)
    assert norm(first) == pytest.approx(np.linalg.norm(first.astype(np.float64)), rel=1e-6)


def test_a_correlation_is_that_of_numpy() -> None:
    first = np.random.default_rng(0).normal(size=500)
    second = first + np.random.default_rng(1).normal(size=500)
    assert correlation(first, second) == pytest.approx(np.corrcoef(first, second)[0, 1])
    assert correlation(first, -3 * first) == pytest.approx(-1)
    assert math.isnan(correlation(first, np.ones(500)))


def test_products_of_columns() -> None:
    first, second = np.arange(12.0).reshape(4, 3), np.arange(8.0).reshape(4, 2)
    np.testing.assert_array_equal(between(first, second), first.T @ second)


IN_A_PROCESS = """
import os, pathlib, time
import numpy as np
from mothtrap.statistics.products import between, norm

def others_s():
    tasks = [t for t in pathlib.Path("/proc/self/task").iterdir() if t.name != str(os.getpid())]
    return sum(int((t / "schedstat").read_text().split()[0]) for t in tasks) / 1e9

large, table = np.ones(500_000), np.ones((256, 128))
time.sleep(0.5)  # threads that the import has started come to rest
before = others_s()
for _ in range(5):
    norm(large)
    between(table, table)
    time.sleep(0.05)
print(others_s() - before)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_no_thread_goes_on_afterwards() -> None:
    """Measured in a separate process, where nothing else has started BLAS' threads."""
    done = subprocess.run(
        [sys.executable, "-c", IN_A_PROCESS], capture_output=True, text=True, check=True
    )
    assert float(done.stdout) < 0.02  # BLAS takes 0.25 s here


def test_no_product_beside_a_training_wakes_threads() -> None:
    assert blas_offences(SOURCE) == []


def test_product_check_sees_a_planted_use(tmp_path: Path) -> None:
    plant(tmp_path, "tracing/bad.py", "import numpy as np\nnp.linalg.norm(x)\nnp.dot(x, x)")
    plant(tmp_path, "web/good.py", "import numpy as np\nnp.linalg.norm(x)")
    assert len(blas_offences(tmp_path)) == 2


def blas_offences(source: Path) -> list[str]:
    """Return BLAS products in code that runs beside a training, whose threads keep spinning."""
    offences = []
    for path in (path for folder in BESIDE_TRAINING for path in (source / folder).rglob("*.py")):
        if PRODUCT.search(path.read_text(encoding="utf-8")):
            tree = parsed(path)
            names, attributes = dict(named(tree)), nodes(tree, ast.Attribute)
            offences += [f"{path}:{n.lineno}" for n in attributes if whole(n, names) in BLAS]
    return offences
