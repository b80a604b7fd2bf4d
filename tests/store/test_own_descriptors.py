"""A descriptor closed by a script is opened again; another file with its number is left alone."""

from __future__ import annotations

import itertools
import os
from pathlib import Path

import pytest

from mothtrap.store import own_descriptors
from mothtrap.store.own_descriptors import OwnDescriptor

NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND


def test_a_file_that_took_the_number_is_neither_written_nor_closed(tmp_path: Path) -> None:
    own = OwnDescriptor(tmp_path / "own", NEW)
    os.write(own.number(), b"one ")
    taken = own.number()
    os.close(taken)
    theirs = os.open(tmp_path / "theirs", os.O_RDWR | os.O_CREAT)
    assert theirs == taken
    os.write(own.number(), b"two")
    own.close()
    own.close()
    os.write(theirs, b"theirs")
    os.close(theirs)
    assert (tmp_path / "own").read_bytes() == b"one two"
    assert (tmp_path / "theirs").read_bytes() == b"theirs"


@pytest.mark.parametrize("replaced", [False, True])
def test_a_file_that_is_gone_cannot_be_opened_again(tmp_path: Path, replaced: bool) -> None:
    own = OwnDescriptor(tmp_path / "own", NEW)
    os.close(own.number())
    os.rename(tmp_path / "own", tmp_path / "moved")
    if replaced:
        (tmp_path / "own").write_bytes(b"another")
    with pytest.raises(FileNotFoundError):
        own.number()
    own.close()
    assert own.closed


def test_closed_and_not_taken_it_is_closed_without_an_error(tmp_path: Path) -> None:
    own = OwnDescriptor(tmp_path / "own", NEW)
    os.close(own.number())
    own.close()
    assert own.closed


def test_inode_numbers_that_change_do_not_matter(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def renumbered(number: int) -> tuple[int, int]:
        status = os.fstat(number)
        return status.st_dev, next(numbers)

    numbers = itertools.count()
    monkeypatch.setattr(own_descriptors, "_file_of", renumbered)
    own = OwnDescriptor(tmp_path / "own", NEW)
    number = own.number()
    assert own.number() == number  # it is not opened again
    os.close(number)
    theirs = os.open(tmp_path / "theirs", os.O_RDWR | os.O_CREAT)
    assert theirs == number
    os.write(own.number(), b"one")
    own.close()
    os.write(theirs, b"theirs")
    os.close(theirs)
    assert (tmp_path / "own").read_bytes() == b"one"
