from __future__ import annotations

import random

import numpy as np
import pytest
import torch
from tests.adapters.torch.watched import classifier, sgd, train, watched

from mothtrap.adapters.torch.comparing_runs.random_digests import RandomDigests
from mothtrap.adapters.torch.job import randomness


def draw(name: str) -> None:
    if name == "rng.python":
        random.random()
    elif name == "rng.numpy":
        np.random.rand()
    else:
        torch.rand(1)


@pytest.mark.parametrize("name", ["rng.python", "rng.numpy", "rng.torch"])
def test_one_draw_shows_in_the_digest_of_its_generator_alone(name: str) -> None:
    digests = RandomDigests()
    before = dict(digests.read())
    assert dict(digests.read()) == before
    draw(name)
    after = dict(digests.read())
    assert [key for key in after if after[key] != before[key]] == [name]


def test_equal_seeds_have_equal_digests_and_others_have_others() -> None:
    found = []
    for seed in (3, 3, 4):
        random.seed(seed)
        np.random.seed(seed)
        torch.manual_seed(seed)
        found.append(dict(RandomDigests().read()))
    assert found[0] == found[1]
    assert all(found[0][name] != found[2][name] for name in found[0])


def test_nothing_is_drawn() -> None:
    random.seed(0)
    np.random.seed(0)
    torch.manual_seed(0)
    wanted = random.random(), np.random.rand(), torch.rand(1).item()
    random.seed(0)
    np.random.seed(0)
    torch.manual_seed(0)
    list(RandomDigests().read())
    assert (random.random(), np.random.rand(), torch.rand(1).item()) == wanted


def test_another_kind_of_generator_in_numpy_can_be_read() -> None:
    ours = np.random.get_bit_generator()
    try:
        np.random.set_bit_generator(np.random.PCG64(1))
        before = dict(RandomDigests().read())["rng.numpy"]
        np.random.rand()
        assert dict(RandomDigests().read())["rng.numpy"] != before
    finally:
        np.random.set_bit_generator(ours)


def test_the_second_number_of_a_pair_shows() -> None:
    np.random.seed(0)
    np.random.randn()
    digests = RandomDigests()
    before = dict(digests.read())
    np.random.randn()
    assert dict(digests.read())["rng.numpy"] != before["rng.numpy"]


def test_states_are_read_once_for_all_that_want_them(monkeypatch: pytest.MonkeyPatch) -> None:
    """Recording and digests both read the states at every forward; `_packed` costs the most."""
    packed: list[int] = []
    pack = randomness._packed
    monkeypatch.setattr(randomness, "_packed", lambda raw: packed.append(1) or pack(raw))
    model = classifier()
    with watched(capture=()):
        train(model, sgd(model), 3)
    assert len(packed) == 3  # `train` draws a batch at each step
