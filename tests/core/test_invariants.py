from __future__ import annotations

from pathlib import Path

import pytest

from mothtrap.core.errors import ConfigError
from mothtrap.core.invariants import (
    Changes,
    Constant,
    Direction,
    Dtype,
    Invariant,
    Present,
    Range,
    find,
    read,
    shipped,
    text,
)

EVERYTHING: tuple[Invariant, ...] = (
    Range(of="loss"),
    Range(of="l2 of gradient", above=0.0, at_most=17.3),
    Range(of="micro_batches", at_least=1.0, at_most=1.0, patience=5),
    Present(of="loss"),
    Present(of="l2 of gradient", tensors=tuple(f"blocks.{n}.q" for n in range(20)), at="lr:Adam"),
    Constant(of="lr:Adam#1"),
    Changes(of="lr:SGD", within=8),
    Direction(of='lr:a "quoted" one', never="rises"),
    Dtype(of="l2 of weight", dtypes=("bfloat16", "float32")),
)


def test_what_is_written_is_read_again(tmp_path: Path) -> None:
    file = tmp_path / "x.toml"
    file.write_text(text(EVERYTHING, ["one", "two"]))
    assert read(str(file)) == EVERYTHING
    assert max(map(len, file.read_text().splitlines())) <= 100


@pytest.mark.parametrize(
    ("invariant", "sentence"),
    list(
        zip(
            EVERYTHING,
            [
                "the loss is finite",
                "the norm of every gradient is above 0 and at most 17.3",
                "the number of backward passes in a step is always 1",
                "the loss has a value at each step",
                "each of 20 gradients has a value at each step of Adam",
                "the learning rate of Adam#1 never changes",
                "the learning rate of SGD changes within 8 steps",
                'the learning rate of a "quoted" one never rises',
                "the type of every weight is bfloat16 or float32",
            ],
            strict=True,
        )
    ),
)
def test_says_what_holds(invariant: Invariant, sentence: str) -> None:
    assert invariant.sentence == sentence
    patient = " (exceptions last fewer than 5 steps)" if invariant.patience == 5 else ""
    assert f"# {sentence}{patient}\n" in text([invariant], [])


def test_tensors_are_taken_by_name_or_glob() -> None:
    chosen = Constant(of="l2 of weight", tensors=("head.*", "odd[0].weight"))
    names = ("head.weight", "odd[0].weight", "body.weight")
    assert [names[place] for place in chosen.taken(names)] == ["head.weight", "odd[0].weight"]
    assert Constant(of="l2 of weight", tensors=("head.*", "body.weight")).named == ("body.weight",)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("version = 1\n[[invariant]]\nkind = 'rang'\nof = 'loss'", r"x\.toml .*'rang'"),
        ("version = 1\n[[invariant]]\nkind = 'range'\nof = 'loss'\natmost = 1", "atmost"),
        ("version = 1\n[[invariant]]\nkind = 'range'\nof = 'l3 of weight'", "did you mean 'l2'"),
        ("version = 1\n[[invariant]]\nkind = 'range'\nof = 'l2 of wait'", "there is no 'wait'"),
        ("version = 1\n[[invariant]]\nkind = 'changes'\nof = 'lr'", "within"),
        ("runs_dir = 'runs'", "from `mothtrap learn`"),
        ("version = 2", r"version 2 is not supported, only 1"),
        ("version = ", "is not a file of invariants"),
    ],
)
def test_a_file_that_is_none_is_refused_in_words(
    content: str, message: str, tmp_path: Path
) -> None:
    file = tmp_path / "x.toml"
    file.write_text(content)
    with pytest.raises(ConfigError, match=message):
        read(str(file))


def test_a_file_that_is_not_there_names_those_that_come_with_mothtrap(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"'pytorc' cannot be read .*did you mean 'pytorch'"):
        read("pytorc")
    with pytest.raises(ConfigError, match="cannot be read"):
        read(str(tmp_path))


def test_what_comes_with_mothtrap_is_found_by_its_name_and_by_its_path() -> None:
    assert "pytorch" in shipped()
    assert read("pytorch") == read(str(find("pytorch")))


def test_what_comes_with_mothtrap_names_no_tensor_and_no_optimizer() -> None:
    for invariant in read("pytorch"):
        assert invariant.tensors == ("*",), invariant.sentence
        assert ":" not in invariant.of, invariant.sentence
