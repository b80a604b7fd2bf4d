from tests.harness.terminal import lines


def test_a_carriage_return_writes_over_the_line() -> None:
    assert lines(" 10%\r 20%\r\ndone\r\n") == [" 20%", "done", ""]


def test_a_shorter_text_over_a_longer_one_leaves_its_tail() -> None:
    assert lines("50%|#####\rfound it\r\n") == ["found it#", ""]


def test_erasing_clears_the_line() -> None:
    assert lines("50%|#####\r\x1b[Kfound it\r\n\x1b[31mred\x1b[0m") == ["found it", "red"]


def test_moving_up_returns_to_an_earlier_line() -> None:
    assert lines("one\r\ntwo\r\x1b[Aone again") == ["one again", "two"]
