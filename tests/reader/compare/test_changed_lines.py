from __future__ import annotations

from types import SimpleNamespace

from mothtrap.reader.compare.changed_lines import MAX_LINES, changed_lines

TEXT = "rate = 0.1\ntrain(rate)\n"


def changed(first: dict[str, str], second: dict[str, str]) -> tuple[str, ...]:
    return changed_lines(
        *(SimpleNamespace(source_texts=lambda texts=texts: texts) for texts in (first, second))  # type: ignore[arg-type]
    )


def test_a_changed_line_is_shown_with_its_number() -> None:
    assert changed({"a/train.py": TEXT}, {"a/train.py": TEXT.replace("0.1", "0.2")}) == (
        "--- a/train.py",
        "+++ a/train.py",
        "@@ -1 +1 @@",
        "-rate = 0.1",
        "+rate = 0.2",
    )


def test_equal_scripts_have_no_changes() -> None:
    assert changed({"train.py": TEXT}, {"train.py": TEXT}) == ()
    assert changed({}, {"train.py": TEXT}) == ()


def test_files_in_other_folders_are_compared_by_name() -> None:
    mine = {"a/train.py": TEXT, "a/net.py": "x = 1\n"}
    theirs = {"b/train.py": TEXT + "done()\n", "b/net.py": "x = 1\n"}
    assert changed(mine, theirs)[2:] == ("@@ -2,0 +3 @@", "+done()")


def test_a_script_may_have_a_new_name() -> None:
    assert changed({"a/train.py": TEXT}, {"a/train2.py": "rate = 0.1\n"})[-1] == "-train(rate)"


def test_many_changes_are_cut() -> None:
    mine, theirs = ("\n".join(f"{word} {n}" for n in range(99)) for word in ("a", "b"))
    lines = changed({"train.py": mine}, {"train.py": theirs})
    assert len(lines) == MAX_LINES + 1
    assert lines[-1] == "... 161 more lines"
