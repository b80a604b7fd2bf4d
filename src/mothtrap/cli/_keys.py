"""Single keys from a terminal, without Enter; the terminal mode is restored at the end."""

from __future__ import annotations

import os
import select
import termios
import tty
from types import TracebackType


class Keys:
    """Reads keys from a terminal inside a `with` block.

    Args:
        descriptor: descriptor of the terminal.
    """

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    def __enter__(self) -> Keys:
        self._before = termios.tcgetattr(self._descriptor)
        tty.setcbreak(self._descriptor)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        termios.tcsetattr(self._descriptor, termios.TCSADRAIN, self._before)

    def wait(self, timeout_s: float) -> str:
        """Return the next key; "" after the timeout, "q" if the terminal was closed."""
        ready, _, _ = select.select([self._descriptor], [], [], timeout_s)
        if not ready:
            return ""
        data = os.read(self._descriptor, 16)
        return data[:1].decode("ascii", "replace") if data else "q"
