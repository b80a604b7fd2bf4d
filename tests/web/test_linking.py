"""The page's modules as one file: imported modules come first, unsupported forms are refused."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from mothtrap.web.linking import Unlinkable, linked
from mothtrap.web.static_files import static_files

SOURCES = {
    "a.js": 'import { two, add as sum } from "./parts/b.js";\nimport os from "node:os";\n'
    "console.log(sum(two, 1), typeof os.cpus);\n",
    "parts/b.js": 'import { one } from "../c.js";\nexport const two = one + one;\n'
    "export function add(x, y) { return x + y; }\n",
    "c.js": "/** A number.\n * @type {number} */\nexport const one = 1;\n",
}


def test_modules_come_after_what_they_import(tmp_path: Path) -> None:
    page = linked("a.js", SOURCES)["a.js"]
    assert page.index("// c.js") < page.index("// parts/b.js") < page.index("// a.js")
    assert "A number" not in page
    assert page.startswith('import * as package0 from "node:os";\n')
    if (node := shutil.which("node")) is None:
        pytest.skip("no Node to run it")
    (tmp_path / "page.mjs").write_text(page)
    ran = subprocess.run([node, tmp_path / "page.mjs"], capture_output=True, text=True)
    assert ran.stdout == "3 function\n", ran.stderr


@pytest.mark.parametrize(
    ("source", "named"),
    [
        ('import "./c.js";\n', 'import "./c.js"'),
        ('import * as c from "./c.js";\n', "import \\* as c"),
        ("export default 1;\n", "export default 1"),
        ("export let changes = 1;\n", "export let changes"),
        ('import { a } from "./a.js";\n', "imports itself"),
        ('import { d } from "./d.js";\n', "d.js is missing: a.js"),
    ],
)
def test_what_cannot_be_linked_is_named(source: str, named: str) -> None:
    with pytest.raises(Unlinkable, match=named):
        linked("a.js", {**SOURCES, "a.js": source})


def test_what_is_loaded_later_takes_shared_modules_from_the_first_file(tmp_path: Path) -> None:
    sources = {
        **SOURCES,
        "c.js": "export const one = globalThis.count = (globalThis.count ?? 0) + 1;\n",
        "more/d.js": 'import { one } from "../c.js";\nimport { six } from "./e.js";\n'
        "export const D = [one, six, globalThis.count];\n",
        "more/e.js": "export const six = 6;\n",
    }
    files = linked("a.js", sources, "more/d.js")
    assert files["more/d.js"].startswith('import { sharedModules } from "../a.js";\n')
    assert "six = 6" not in files["a.js"]
    if (node := shutil.which("node")) is None:
        pytest.skip("no Node to run it")
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    (tmp_path / "package.json").write_text('{"type": "module"}')
    page = tmp_path / "page.js"
    page.write_text('import("./more/d.js").then(({ D }) => console.log(...D));\n')
    ran = subprocess.run([node, page], capture_output=True, text=True)
    assert ran.stdout == "3 function\n1 6 1\n", ran.stderr


def test_the_page_asks_for_two_modules_of_ours() -> None:
    scripts = {name for name in static_files() if name.endswith(".js")}
    own = {name for name in scripts if not name.startswith("vendor/")}
    assert own == {"app.js", "views/deep.js"}
