"""The gate: token, host, origin and headers."""

from __future__ import annotations

import re

import pytest
from tests.web.conftest import TOKEN, Site

from mothtrap.web.static_files import static_files


def test_without_a_token_nothing_is_served(site: Site) -> None:
    for path in ("/", "/app.js", "/api/runs", "/api/run?run=nan"):
        status, _, body = site.ask(path, Authorization=None)
        assert status == 401
        assert b"mothtrap ui" in body


def test_a_wrong_token_is_none(site: Site) -> None:
    assert site.ask("/api/runs", Authorization="Bearer " + "u" * 43)[0] == 401
    assert site.ask(f"/?token={'u' * 43}", Authorization=None)[0] == 401
    assert site.ask("/api/runs", Authorization="Bearer \xe4")[0] == 401
    assert site.ask("/api/runs", Authorization=None, Cookie="mothtrap-x=1; \x7f=[[")[0] == 401


def test_the_first_address_becomes_a_cookie_and_leaves_the_address(site: Site) -> None:
    status, headers, _ = site.ask(f"/?token={TOKEN}&x=1", Authorization=None)
    assert status == 303
    assert headers["location"] == "./?x=1"
    assert TOKEN not in headers["location"]
    assert re.search("HttpOnly; SameSite=Lax; Path=/", headers["set-cookie"])
    cookie = headers["set-cookie"].partition(";")[0]
    assert site.ask("/api/runs", Authorization=None, Cookie=cookie)[0] == 200


def test_a_foreign_host_is_refused(site: Site) -> None:
    for host in ("evil.example", "evil.example:8765", "127.0.0.1.evil.example", ""):
        assert site.ask("/api/runs", Host=host)[0] == 421


@pytest.mark.parametrize("host", ["localhost", "localhost:9000", "127.0.0.1:1", "[::1]:9000"])
def test_the_loopback_is_served_under_any_port(site: Site, host: str) -> None:
    assert site.ask("/api/runs", Host=host)[0] == 200


@pytest.mark.parametrize("of", ["cross-site", "same-site"])
def test_another_site_asks_in_vain(site: Site, of: str) -> None:
    assert site.ask("/api/runs", Sec_Fetch_Site=of)[0] == 403
    assert site.ask("/", Sec_Fetch_Site=of)[0] == 200  # a link in a chat opens


def test_asking_for_a_change_requires_a_header_of_ours(site: Site) -> None:
    path = "/api/control/capture?run=live"
    assert site.ask(path, "POST", b"{}")[0] == 403
    assert site.ask(path, "POST", b"{}", X_Mothtrap="1")[0] == 400  # past the gate
    assert site.ask(path, "POST", b"{}", X_Mothtrap="1", Sec_Fetch_Site="cross-site")[0] == 403
    assert site.ask(path, X_Mothtrap="1")[0] == 404  # reading changes nothing


def test_headers_keep_the_page_to_itself(site: Site) -> None:
    _, headers, body = site.ask("/")
    policy = headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["referrer-policy"] == "no-referrer"
    assert headers["cross-origin-resource-policy"] == "same-origin"
    assert "access-control-allow-origin" not in headers
    assert "server" not in headers
    assert b" style=" not in body
    assert site.ask("/api/runs")[1]["cache-control"] == "no-store"


@pytest.mark.parametrize(
    "path",
    [
        *("/../../../../etc/passwd", "/..%2f..%2fserver.py", "/%2e%2e/%2e%2e/etc/passwd"),
        *("//etc/passwd", "/static/../app.js", "/vendor/LOCK.json", "/app.js/", "/\x00"),
    ],
)
def test_a_path_names_a_file_of_the_page_or_nothing(site: Site, path: str) -> None:
    status, _, body = site.ask(path.replace("\x00", "%00"))
    assert status == 404
    assert b"root:" not in body


def test_every_file_of_the_page_is_served_once(site: Site) -> None:
    for name, file in static_files().items():
        status, headers, body = site.ask(f"/{name}")
        assert (status, body) == (200, file.data)
        assert site.ask(f"/{name}", If_None_Match=headers["etag"])[0] == 304
