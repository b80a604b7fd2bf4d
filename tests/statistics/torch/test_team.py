"""Reductions by torch's own threads equal those by one thread."""

from __future__ import annotations

import ctypes
import platform
import subprocess
import sys
import threading
from types import ModuleType

import numpy as np
import pytest
import torch

from mothtrap.statistics import built
from mothtrap.statistics.torch import compiled, team
from mothtrap.statistics.torch.team import TEAM, Team

SHARED_BYTES = 1 << 22
"""Smaller tensors are read by one thread; see `_team.h`."""

pytestmark = pytest.mark.skipif(
    built.arrays is None
    or (sys.platform, platform.machine()) != ("linux", "x86_64")
    or "parallel backend: OpenMP" not in torch.__config__.parallel_info(),
    reason="there is no team for the compiled part",
)


@pytest.fixture(autouse=True)
def way() -> None:
    """Here only the compiled part is tested, not both ways."""


@pytest.fixture(autouse=True)
def uncompiled(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing was compiled in this process; other tests may have done so."""
    monkeypatch.setattr(team, "_COMPILER", "no.such.compiler")


def tensors() -> list[torch.Tensor]:
    """Return small and large tensors in turn."""
    torch.manual_seed(0)
    sizes = [3, 2**18, 1000, 2**20 + 7, 1, *[2**15] * 40, 5]
    return [torch.randn(size) for size in sizes]


@pytest.fixture
def threads():
    before = torch.get_num_threads()
    torch.set_num_threads(4)
    meet()
    yield
    torch.set_num_threads(before)


def meet() -> None:
    """Make torch use its threads, and report that."""
    TEAM.met(torch.ones(2**20).add_(1.0))


@pytest.mark.usefixtures("threads")
def test_they_find_what_one_thread_finds(monkeypatch: pytest.MonkeyPatch) -> None:
    own = tensors()
    assert sum(tensor.nbytes for tensor in own) > SHARED_BYTES
    places_T3 = compiled.places(own)
    pieces_T3 = places_T3.copy()
    pieces_T3[:, 1] *= 4
    pieces_T3[:, 2] = np.cumsum(pieces_T3[:, 1]) - pieces_T3[:, 1]

    def all_ways() -> list[np.ndarray]:
        copied_N = np.zeros(pieces_T3[:, 1].sum(), np.uint8)
        compiled.gather(pieces_T3, copied_N)
        return [
            compiled.norms(places_T3),
            *compiled.summaries(places_T3),
            *compiled.digested_summaries(own, places_T3),
            *compiled.digests(own),
            compiled.tallies(places_T3),
            copied_N,
        ]

    assert TEAM.region()
    together = [all_ways() for _ in range(5)]
    monkeypatch.setattr(TEAM, "region", lambda: 0)
    alone = all_ways()
    for found in together:
        for one, other in zip(found, alone, strict=True):
            np.testing.assert_array_equal(one, other)


def test_only_much_of_several_tensors_is_shared_out() -> None:
    begun: list[tuple[int, int]] = []

    @ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_uint, ctypes.c_uint)
    def region(part: int, shared: int, threads: int, flags: int) -> None:
        begun.append((threads, flags))
        takes_part = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(part)
        helpers = [threading.Thread(target=takes_part, args=(shared,)) for _ in range(3)]
        for helper in helpers:
            helper.start()
        for helper in helpers:
            helper.join()

    def norms(*sizes: int) -> list[float]:
        places_T3 = compiled.places(own := [torch.ones(size) for size in sizes])
        l2_T = np.empty(len(own))
        built.arrays.norms(places_T3, l2_T, ctypes.cast(region, ctypes.c_void_p).value or 0)
        return l2_T.tolist()

    assert norms(2**22) == [2**11]
    assert norms(4, 9, 2**10) == [2, 3, 2**5]
    assert not begun
    assert norms(2**20, 4, 2**18, 1) == [2**10, 2, 2**9, 1]
    assert begun == [(0, 0)]


@pytest.mark.usefixtures("threads")
def test_another_thread_reads_alone_until_torch_has_computed_there() -> None:
    found: list[int] = []

    def look() -> None:
        torch.set_num_threads(4)
        found.append(TEAM.region())
        meet()
        found.append(TEAM.region())

    thread = threading.Thread(target=look)
    thread.start()
    thread.join()
    assert found[0] == 0
    assert found[1] != 0
    assert TEAM.region() == 0  # it belongs to that thread now
    meet()
    assert TEAM.region() == found[1]


@pytest.mark.usefixtures("threads")
def test_with_another_number_of_threads_one_reads_alone_until_torch_has_them() -> None:
    for threads, can_share in ((6, True), (1, False)):
        torch.set_num_threads(threads)
        assert not TEAM.region()
        meet()
        assert bool(TEAM.region()) is can_share


@pytest.mark.usefixtures("threads")
def test_what_is_small_or_compiled_says_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    own = Team()
    own.met(torch.ones(team.SHARED_ELEMENTS - 1))
    own.met(torch.ones(team.SHARED_ELEMENTS, device="meta"))
    assert not own.region()
    large = torch.ones(team.SHARED_ELEMENTS)
    own.met(large)
    assert own.region()
    monkeypatch.setitem(sys.modules, team._COMPILER, ModuleType("compiler"))
    own.met(large)
    assert not own.region()


START = f"""
import os, numpy as np, torch
from mothtrap.statistics.torch import compiled
from mothtrap.statistics.torch.team import TEAM
torch.set_num_threads(4)
own = [torch.from_numpy(np.ones(2**20, np.float32)) for _ in range({SHARED_BYTES // 2**20})]
places = compiled.places(own)
def threads():
    return len(os.listdir("/proc/self/task"))
def end_of(child):
    assert os.waitpid(child, 0)[1] == 0
def look():
    assert compiled.norms(places).tolist() == [1024.0] * len(own)
"""


def runs(program: str) -> None:
    subprocess.run([sys.executable, "-c", START + program], check=True, timeout=120)


def test_a_look_starts_no_thread() -> None:
    """A program in which torch has no threads may fork, and use them there."""
    runs("""
before = threads()
look()
assert threads() == before
child = os.fork()
if child == 0:
    TEAM.met(torch.ones(2**20).add_(1.0))
    look()
    os._exit(0)
end_of(child)
TEAM.met(torch.ones(2**20).add_(1.0))
before = threads()
assert TEAM.region()
look()
assert threads() == before
""")


def test_a_forked_process_reads_alone_and_does_not_wait_for_threads_that_it_has_not() -> None:
    runs("""
TEAM.met(torch.ones(2**20).add_(1.0))
look()
child = os.fork()
if child == 0:
    look()
    os._exit(0)
end_of(child)
""")


@pytest.mark.usefixtures("threads")
def test_numbers_that_a_program_lets_vanish_are_counted_and_vanish_for_it_all_the_same() -> None:
    tiny = torch.full((2**20,), 1e-40)
    own = [tiny, tiny.clone(), torch.ones(2**20)]
    places_T3 = compiled.places(own)
    whole_TF, _ = compiled.summaries(places_T3)
    if not torch.set_flush_denormal(True):
        pytest.skip("this processor lets nothing vanish")
    try:
        found_TF, _ = compiled.summaries(places_T3)
        assert (tiny[:8] * 0.5).count_nonzero() == 0
    finally:
        torch.set_flush_denormal(False)
    np.testing.assert_array_equal(found_TF, whole_TF)
    assert found_TF[0].any()
