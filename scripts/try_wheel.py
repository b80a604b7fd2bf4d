"""Install a wheel into a new environment without a compiler, and run what a user runs first.

Packages that mothtrap needs are taken from the environment of this interpreter, which saves their
download; the files of mothtrap itself come from the wheel alone.

    python scripts/try_wheel.py dist/mothtrap-*-py3-none-any.whl
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path

TRIED = (
    ("-m", "mothtrap", "--version"),
    ("-m", "mothtrap", "skill"),
    ("-m", "mothtrap", "rules"),
)
HELLO = json.dumps(
    {
        "jsonrpc": "2.0",
        "id": 1,
        "method": "initialize",
        "params": {
            "protocolVersion": "2025-03-26",
            "capabilities": {},
            "clientInfo": {"name": "try_wheel", "version": "0"},
        },
    }
)
DEMO = ("-m", "mothtrap", "demo")
"""Takes the longest, so it runs only with the wheel that has no extensions."""
ADDRESS = re.compile(r"http://\S+")
TIMEOUT_S = 30
WHERE = "import mothtrap; print(mothtrap.__file__)"
EXTENSIONS = "import importlib.util as u; print(u.find_spec('mothtrap.statistics._arrays'))"


def main(wheel: Path) -> None:
    """Try a wheel; ends with an error where something does not run."""
    began_s = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="mothtrap-wheel-") as folder:
        bare = Path(folder) / "bare"
        python = str(bare / "bin" / "python")
        run([sys.executable, "-m", "venv", "--without-pip", str(bare)])
        pip = [sys.executable, "-m", "pip", "--python", python, "install", "--quiet"]
        run([*pip, "--no-deps", "--no-index", str(wheel.resolve())])
        purelib = next((bare / "lib").glob("python*")) / "site-packages"
        borrowed = [place for place in sys.path if Path(place).name.endswith("-packages")]
        (purelib / "borrowed.pth").write_text("\n".join(borrowed) + "\n")
        environment = {"PATH": str(bare / "bin"), "HOME": folder, "LANG": "C.UTF-8"}
        place = run([python, "-c", WHERE], folder, environment).strip()
        if not place.startswith(folder):
            raise SystemExit(f"error: mothtrap is imported from {place}, not from the wheel")
        extension = run([python, "-c", EXTENSIONS], folder, environment).strip()
        is_pure = "none-any" in wheel.name
        if is_pure is not (extension == "None"):
            raise SystemExit(f"error: {wheel.name} has the extension {extension}")
        for words in (*TRIED, *[DEMO] * is_pure):
            run([python, *words], folder, environment)
        answer = run([python, "-m", "mothtrap", "mcp"], folder, environment, HELLO + "\n")
        if "serverInfo" not in answer:
            raise SystemExit(f"error: mothtrap mcp answered {answer[:500]!r}")
        open_page([python, "-m", "mothtrap", "ui", "--port", "0"], folder, environment)
    print(f"{wheel.name} works in a bare environment ({time.monotonic() - began_s:.0f} s)")


def open_page(command: list[str], cwd: str, env: dict[str, str]) -> None:
    """Start the page and load it once; ends with an error where it does not come."""
    merged = subprocess.STDOUT
    with subprocess.Popen(
        command, cwd=cwd, env=env, stdout=subprocess.PIPE, stderr=merged, text=True
    ) as server:
        try:
            lines = iter(server.stdout or ())
            address = next((found[0] for line in lines if (found := ADDRESS.search(line))), None)
            if address is None:
                raise SystemExit("error: mothtrap ui printed no address")
            # The page moves its token from the address into a cookie.
            browser = urllib.request.build_opener(urllib.request.HTTPCookieProcessor())
            with browser.open(address, timeout=TIMEOUT_S) as page:
                if b"<html" not in page.read().lower():
                    raise SystemExit(f"error: {address.partition('?')[0]} is no page")
        finally:
            server.terminate()


def run(
    command: list[str],
    cwd: str | None = None,
    env: dict[str, str] | None = None,
    text: str | None = None,
) -> str:
    """Return the output of a command, given `text` as its input; ends with an error if it fails."""
    environment = env or dict(os.environ)
    done = subprocess.run(
        command,
        cwd=cwd,
        env=environment,
        input=text,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        said = f"{done.stdout[-2000:]}\n{done.stderr[-2000:]}"
        raise SystemExit(f"error: {' '.join(command)} ended with {done.returncode}\n{said}")
    return done.stdout


if __name__ == "__main__":
    main(Path(sys.argv[1]))
