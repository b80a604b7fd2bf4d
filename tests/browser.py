"""The browser in which pages are tested."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from typing import Any

import pytest

NO_BROWSER = "no Chromium was found: the page is not tested; install the package chromium"


@pytest.fixture(scope="session")
def browser() -> Iterator[Any]:
    """The system's Chromium: one per process, as Playwright cannot start twice in a thread."""
    required = os.environ.get("BROWSER_TESTS") == "required"
    if not required:
        pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    from playwright import sync_api as playwright

    names = ("chromium", "chromium-browser", "google-chrome")
    found = next((path for path in map(shutil.which, names) if path), None)
    if found is None:
        missing = pytest.fail if required else pytest.skip
        missing(NO_BROWSER)
    with playwright.sync_playwright() as started:
        arguments = ["--no-sandbox", "--disable-dev-shm-usage"]  # root in a container
        chromium = started.chromium.launch(executable_path=found, args=arguments)
        yield chromium
        chromium.close()
