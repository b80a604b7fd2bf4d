"""Checks of every view: no violation of accessibility, and nothing wider than a phone."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from tests.web.conftest import Site, Watched

AXE = Path(__file__).parent / "vendor" / "axe.min.js"
PHONE = 390


def wait_until_read(page: Any) -> None:
    """Wait until a view has its answers."""
    page.locator("main").wait_for()
    page.get_by_text("Reading", exact=False).first.wait_for(state="detached")


def assert_accessible(page: Any, rules: str = "{}", where: object = "") -> None:
    """Find no violation with axe; `rules` are its options. Sandboxed figures are left out."""
    page.evaluate(AXE.read_text(encoding="utf-8"))
    options = f"{{resultTypes: ['violations'], iframes: false, ...{rules}}}"
    found = page.evaluate(f"axe.run({options}).then(r => r.violations)")
    said = [f"{v['id']}: {v['nodes'][0]['html'][:200]}" for v in found]
    assert said == [], where


def assert_narrow(page: Any) -> None:
    """Assert that nothing is wider than the screen, except for parts that scroll."""
    wide = page.evaluate(
        """() => [...document.querySelectorAll("main *")].filter((each) =>
            each.getBoundingClientRect().right > innerWidth + 1
            && !each.closest(".scroll, nav, .uplot")
        ).slice(0, 3).map((each) => each.outerHTML.slice(0, 120))"""
    )
    assert page.evaluate("document.scrollingElement.scrollWidth <= innerWidth"), wide
    assert wide == []


def assert_sound(browser: Any, site: Site, places: Iterable[str], ready: str = "main h2") -> None:
    """Open views at the width of a desk and of a phone; the console stays clean.

    Args:
        browser: a started browser.
        site: the server.
        places: of the page, such as `#/runs`.
        ready: selector of a part that a view has once it is read.
    """
    for width in (1300, PHONE):
        context = browser.new_context(viewport={"width": width, "height": 844})
        seen = Watched(context.new_page(), site.origin)
        for place in places:
            seen.page.goto(site.url(place))
            wait_until_read(seen.page)
            seen.page.locator(ready).first.wait_for()
            if width == PHONE:
                assert_narrow(seen.page)
            else:
                assert_accessible(seen.page, where=place)
        context.close()
        seen.assert_quiet()
