"""The page's modules as one file: what is imported comes first, and odd forms are refused."""

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
    page = linked("a.js", SOURCES)
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


def test_the_page_asks_for_one_module_of_ours() -> None:
    scripts = {name for name in static_files() if name.endswith(".js")}
    assert {name for name in scripts if not name.startswith("vendor/")} == {"app.js"}
