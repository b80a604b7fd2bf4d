"""Parameters in any container become flat names with plain values."""

from __future__ import annotations

import argparse
import dataclasses
import enum
from pathlib import Path

import numpy as np
import torch

from mothtrap.core.parameters import MAX_NAMES, flat, plain


class Mode(enum.Enum):
    FAST = "fast"


@dataclasses.dataclass
class Optim:
    lr: float = 1e-3
    betas: tuple[float, float] = (0.9, 0.99)


class Loud:
    def __repr__(self) -> str:
        raise AssertionError("the text of an object was asked for")


def test_nested_holders_become_dotted_names() -> None:
    namespace = argparse.Namespace(
        optim=Optim(), mode=Mode.FAST, out=Path("a/b"), dtype=torch.float16, n=np.int64(3)
    )
    values, left_out = flat({"args": namespace, "model": {"dims": [1, 2]}})
    assert left_out == 0
    assert values == {
        "args.optim.lr": 1e-3,
        "args.optim.betas": "[0.9, 0.99]",
        "args.mode": "fast",
        "args.out": "a/b",
        "args.dtype": "torch.float16",
        "args.n": 3,
        "model.dims": "[1, 2]",
    }


def test_neither_code_nor_text_of_an_object_is_asked_for() -> None:
    circle: dict[str, object] = {"loud": Loud(), "function": flat, "weights": torch.zeros(3)}
    circle["self"] = circle
    values, _ = flat(circle)
    assert values["loud"] == f"<{__name__}.Loud>"
    assert values["function"] == "<mothtrap.core.parameters.flat>"
    assert values["weights"] == "<torch.Tensor>"
    assert values["self"] == "{4 entries}"


def test_texts_of_secrets_are_masked_and_numbers_are_not() -> None:
    given = {
        "api_key": "abc",
        "hfToken": "abc",
        "db": {"password": "x"},
        "pad_token_id": 3,
        "tokenizer": "gpt2",
        "url": "https://me:pw@host/x",
    }
    values, _ = flat(given)
    assert values == {
        "api_key": "***",
        "hfToken": "***",
        "db.password": "***",
        "pad_token_id": 3,
        "tokenizer": "gpt2",
        "url": "https://***@host/x",
    }


def test_sizes_are_bounded() -> None:
    values, left_out = flat({f"n{i}": i for i in range(MAX_NAMES + 5)} | {"a" * 10_000: "b" * 9000})
    assert (len(values), left_out) == (MAX_NAMES, 6)
    assert len(str(plain("b" * 9000))) == 500
    assert plain(float("nan")) == "nan"
    assert plain(10**400) == str(10**400)[:50]
    assert str(plain(list(range(1000)))).endswith("and 968 more]")
    assert plain("\udc80") == "\\udc80"
