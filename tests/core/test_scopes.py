from __future__ import annotations

import pytest

from mothtrap.core.scopes import PARTIAL, REPLICA, Scope, Shard, parse_scope, scope_words


def test_words_are_read_as_they_were_written() -> None:
    words = scope_words([(REPLICA, "dp"), (str(Shard(2, 4, 1)), "tp")])
    assert words == "replica over dp; shard 2/4 of dim 1 over tp"
    assert parse_scope(words) == Scope(replicated=True, shards=(Shard(2, 4, 1),))
    assert parse_scope(scope_words([(str(Shard(1, 2, 0)), "")])).pieces == 2


def test_no_words_are_a_tensor_of_the_workers_own() -> None:
    assert parse_scope("") == Scope()
    assert Scope().pieces == 1


def test_a_tensor_cut_along_two_axes_has_the_product_of_the_pieces() -> None:
    assert parse_scope("shard 1/2 of dim 0; shard 3/4 of dim 0").pieces == 8


@pytest.mark.parametrize(
    "words", [PARTIAL, "shard 3/2 of dim 0", "shard 0/2 of dim 0", "shard one of two", "mirror"]
)
def test_what_cannot_be_put_together_is_not_merged(words: str) -> None:
    assert not parse_scope(words).mergeable
