"""Program that repeats a recorded step with the result of `--build module:function`."""

from __future__ import annotations

import os
import sys

from mothtrap.core.errors import MothtrapError
from mothtrap.core.replays import read_plan
from mothtrap.session.adapters import load


def main() -> None:
    """Replay the step of the plan in the environment, with the framework in `sys.argv`."""
    adapter = load(sys.argv[1])
    try:
        if adapter.replay is not None:
            adapter.replay(read_plan(os.environ))
    except MothtrapError as err:
        sys.exit(f"error: {err}")


if __name__ == "__main__":
    main()
