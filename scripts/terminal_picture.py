"""Make the picture of the terminal in README.md from real runs of the demo's program.

    python scripts/terminal_picture.py [FILE]

Requires what `mothtrap demo` requires. Most epochs are left out of the picture; nothing else is.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from importlib.resources import files
from io import StringIO
from pathlib import Path

from rich.console import Console
from rich.text import Text

COMMANDS = ("mothtrap run digits.py", "mothtrap run digits.py --fixed")
COLUMNS = 88
LEFT_OUT = re.compile(r"^epoch (?:[3-9]):.*\n", re.MULTILINE)
FONT_FACES = re.compile(r"\s*@font-face \{.*?\}", re.DOTALL)
FONTS = "ui-monospace, 'SF Mono', Menlo, Consolas, 'DejaVu Sans Mono', monospace"


def main(path: Path) -> int:
    """Run the commands and write what the terminal shows as SVG."""
    shown = Console(width=COLUMNS, record=True, file=StringIO(), force_terminal=True)
    with tempfile.TemporaryDirectory() as work:
        shutil.copy(str(files("mothtrap") / "examples" / "digits.py"), work)
        for command in COMMANDS:
            shown.print(Text.assemble(("$ ", "bright_black"), (command, "bold white")))
            shown.print(Text.from_ansi(shortened(output_of(command, work))))
            shown.print()
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(with_local_fonts(shown.export_svg(title="mothtrap")), encoding="utf-8")
    return 0


def output_of(command: str, folder: str) -> str:
    """Return what a command prints on a terminal with colors, both streams in order."""
    words = [sys.executable, "-m", *command.split()]
    environ = os.environ | {"FORCE_COLOR": "1", "PYTHONUNBUFFERED": "1", "PYTHONUTF8": "1"}
    environ.pop("NO_COLOR", None)
    done = subprocess.run(
        words, cwd=folder, env=environ, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=True
    )
    return done.stdout.decode("utf-8")


def shortened(output: str) -> str:
    """Replace all epochs but the first two and the last by an ellipsis."""
    first = LEFT_OUT.sub("...\n", output, count=1)
    return LEFT_OUT.sub("", first).strip("\n")


def with_local_fonts(svg: str) -> str:
    """Return a picture that loads no font from elsewhere."""
    return FONT_FACES.sub("", svg).replace(
        "font-family: Fira Code, monospace", f"font-family: {FONTS}"
    )


if __name__ == "__main__":
    root = Path(__file__).parents[1]
    target = Path(sys.argv[1]) if len(sys.argv) > 1 else root / "docs" / "pictures" / "terminal.svg"
    sys.exit(main(target))
