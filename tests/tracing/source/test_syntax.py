from __future__ import annotations

import ast
import linecache
from pathlib import Path

from mothtrap.tracing.source.syntax import MAX_TREES, call_at, parsed


def written(folder: Path, text: str, name: str = "train.py") -> str:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    linecache.checkcache(str(path))
    return str(path)


def test_a_file_is_parsed_once(tmp_path: Path) -> None:
    file = written(tmp_path, "x = 1\n")
    assert parsed(file) is parsed(file)


def test_a_changed_file_is_parsed_again(tmp_path: Path) -> None:
    before = parsed(written(tmp_path, "x = 1\n"))
    after = parsed(written(tmp_path, "first = 1\nsecond = 2\n"))
    assert before is not None
    assert after is not None
    assert (len(before.body), len(after.body)) == (1, 2)


def test_few_trees_are_kept(tmp_path: Path) -> None:
    first = written(tmp_path, "x = 0\n", "0.py")
    tree = parsed(first)
    for number in range(1, MAX_TREES + 1):
        parsed(written(tmp_path, f"x = {number}\n", f"{number}.py"))
    assert parsed(first) is not tree


def test_source_that_cannot_be_read_has_no_tree(tmp_path: Path) -> None:
    assert parsed(written(tmp_path, "x = (\n")) is None
    assert call_at(written(tmp_path, "x = (\n"), (1, 1, 0, 1)) is None


def test_a_call_is_found_by_its_place(tmp_path: Path) -> None:
    file = written(tmp_path, "loss = f(g(1))\nh()\n")
    inner = call_at(file, (1, 1, 9, 13))
    assert inner is not None
    assert ast.unparse(inner) == "g(1)"
    assert call_at(file, (1, 1, 0, 4)) is None
    assert call_at(file, (None, None, None, None)) is None
