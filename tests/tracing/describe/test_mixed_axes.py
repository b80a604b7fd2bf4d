from __future__ import annotations

import pytest

from mothtrap.tracing.describe.mixed_axes import mixes


@pytest.mark.parametrize(
    ("given", "became", "mixed"),
    [
        pytest.param((9, 32, 20), (32, 9, 20), True, id="two axes change places"),
        pytest.param((32, 9, 20), (32, 20, 9), True, id="the last two change places"),
        pytest.param((8, 4, 32, 12), (8, 32, 48), True, id="heads are joined over positions"),
        pytest.param((2, 32, 24), (32, 48), True, id="directions are joined over the batch"),
        pytest.param((8, 32, 32, 3), (8, 3, 32, 32), True, id="channels come first"),
        pytest.param((8, 32, 48), (8, 4, 32, 12), True, id="heads are split over positions"),
        pytest.param((8, 32, 48), (32, 32, 12), True, id="heads are split into rows"),
        pytest.param((32, 48), (2, 32, 24), True, id="layers are split over the batch"),
        pytest.param((8, 4, 48), (8, 4, 4, 12), False, id="as many heads as positions"),
        pytest.param((32, 8, 48), (32, 32, 12), False, id="heads are joined with the batch"),
        pytest.param((32, 48), (32, 3, 16), False, id="channels are split"),
        pytest.param((32, 300), (32, 3, 10, 10), False, id="an image is unfolded"),
        pytest.param((8, 32, 48), (256, 48), False, id="positions become rows"),
        pytest.param((8, 6, 10, 10), (8, 3, 2, 10, 10), False, id="groups of channels"),
        pytest.param((20, 16, 64), (20, 64, 16), False, id="an axis may have been split"),
        pytest.param((8, 32, 48), (8, 32, 4, 12), False, id="heads are split"),
        pytest.param((8, 32, 4, 12), (8, 32, 48), False, id="heads are joined"),
        pytest.param((9, 32, 20), (288, 20), False, id="rows are joined"),
        pytest.param((1, 9, 20), (9, 1, 20), False, id="an axis of size 1 moves"),
        pytest.param((1, 9, 20), (9, 20), False, id="an axis of size 1 goes"),
        pytest.param((9, 20), (9, 20), False, id="nothing changes"),
    ],
)
def test_reshapes_that_mix_axes(
    given: tuple[int, ...], became: tuple[int, ...], mixed: bool
) -> None:
    assert mixes(given, became) is mixed
