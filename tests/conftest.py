"""Property tests try the same cases in every run; HYPOTHESIS_PROFILE=explore tries new ones."""

import gc
import os
import signal
import sys

import pytest
from hypothesis import settings
from tests.browser import browser
from tests.harness.cpu_time import CpuTimes
from tests.harness.running import FULL, ready

from mothtrap.session import surroundings

__all__ = ["browser"]  # a fixture for every folder

# For every process that a test starts, however it is started. Threads that spin while they wait
# take CPU time that other tests need; the other variables require that Python itself starts the
# process.
os.environ["OMP_WAIT_POLICY"] = "PASSIVE"
os.environ["TRITON_INTERPRET"] = "1"  # kernels run on the CPU; read when Triton is imported
for variable in ("PYTHONUNBUFFERED", "PYTHONDONTWRITEBYTECODE"):
    os.environ.pop(variable, None)
gc.disable()  # until collection ends, which saves a fifth of its time
surroundings.MAX_SOURCES = 8  # else each session digests and stores hundreds of tests: 40 ms
sys.dont_write_bytecode = False  # pytest caches rewritten tests, which halves collection
# A shell's background job ignores these signals, as would everything started here.
for number, usual in (
    (signal.SIGINT, signal.default_int_handler),
    (signal.SIGQUIT, signal.SIG_DFL),
):
    if signal.getsignal(number) is signal.SIG_IGN:
        signal.signal(number, usual)

settings.register_profile(
    "repeatable", derandomize=True, deadline=None, max_examples=100 if FULL else 50
)
settings.register_profile("explore", max_examples=1000, deadline=None)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "repeatable"))


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers() -> int:
    """One more than there are processors: tests spend a third of the time waiting for processes."""
    return (os.cpu_count() or 1) + 1


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Skip the tests of the full harness unless they are requested."""
    if FULL:
        return
    config.hook.pytest_deselected(items=[i for i in items if i.get_closest_marker("full")])
    items[:] = [item for item in items if not item.get_closest_marker("full")]


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add `--cpu-times`, `--cpu-planned` and `--cpu-limit`."""
    parser.addoption("--cpu-times", action="store_true", help="show the most expensive tests")
    parser.addoption(
        "--cpu-planned", type=float, help="show this number beside the CPU seconds of all tests"
    )
    parser.addoption(
        "--cpu-limit", type=float, help="fail when a test takes more CPU seconds than this"
    )


def pytest_configure(config: pytest.Config) -> None:
    """Measure the cost of tests: workers measure, and the first process reports."""
    limit_s = config.getoption("--cpu-limit")
    if config.getoption("--cpu-times") or limit_s is not None:
        config.pluginmanager.register(CpuTimes(limit_s, config.getoption("--cpu-planned")))


def pytest_collection_finish() -> None:
    """Exclude everything imported and collected so far from later garbage collections."""
    gc.collect()
    gc.freeze()
    gc.enable()


@pytest.fixture(scope="session")
def python() -> str:
    """Python, or its replacement, for a test that starts it without `running`."""
    return ready()
