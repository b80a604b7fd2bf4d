"""The gate before every request: right host, known user, same origin; and the headers of answers.

A server on the loopback is open to every program and every page of the machine: the token keeps
other users out, the list of hosts keeps out names that were bound to this address, and
`Sec-Fetch-Site` keeps out other pages of the same browser.
"""

from __future__ import annotations

import hashlib
import hmac
import ipaddress
import json
from collections.abc import Awaitable, Callable, Iterable, MutableMapping
from http.cookies import CookieError, SimpleCookie
from typing import Any
from urllib.parse import parse_qsl, urlencode

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]
Headers = dict[str, str]

LOOPBACK = ("localhost", "127.0.0.1", "[::1]")
COOKIE_S = 30 * 86_400
API = "/api/"
OURS = "x-mothtrap"
"""A header that a form or a link of another page cannot send."""

NO_TOKEN = (
    "This page requires a token. Open the address that `mothtrap ui` printed; it ends in "
    "?token=... Each browser needs it once."
)


def content_policy(script_hash: str) -> str:
    """Return the Content-Security-Policy of the page.

    Args:
        script_hash: `sha256-...` of the import map, the only inline script.
    """
    return "; ".join(
        (
            "default-src 'none'",
            f"script-src 'self' '{script_hash}'",
            "style-src 'self'",
            "img-src 'self' data: blob:",
            "connect-src 'self'",
            "frame-src 'self'",
            "base-uri 'none'",
            "form-action 'none'",
            "frame-ancestors 'none'",
        )
    )


class Gate:
    """Authorizes requests to an ASGI application.

    Args:
        app: the application.
        token: token that a user must have.
        place: the served location; it determines the cookie's name, because ports share cookies.
        policy: Content-Security-Policy header.
        allowed_hosts: host names in addition to the loopback's.
        addresses: whether a host may be any numeric address, because no name can be bound to one.
    """

    def __init__(
        self,
        app: App,
        *,
        token: str,
        place: str,
        policy: str,
        allowed_hosts: Iterable[str] = (),
        addresses: bool = False,
    ) -> None:
        self._app = app
        self._token = token.encode()
        self._cookie = f"mothtrap-{hashlib.sha256(place.encode()).hexdigest()[:12]}"
        self._addresses = addresses
        self._hosts = {*LOOPBACK, *(host.lower() for host in allowed_hosts)}
        self._headers = {
            "content-security-policy": policy,
            "x-content-type-options": "nosniff",
            "referrer-policy": "no-referrer",
            "cross-origin-resource-policy": "same-origin",
        }

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, or pass it on."""
        if scope["type"] != "http":
            return
        headers = {k.decode("latin-1").lower(): v.decode("latin-1") for k, v in scope["headers"]}
        path = scope["path"]

        async def sealed(message: Message) -> None:
            if message["type"] == "http.response.start":
                kept = [(k, v) for k, v in message["headers"] if k.lower() != b"server"]
                own = {k.lower() for k, _ in kept}  # a figure has its own policy
                more = {k: v for k, v in self._headers.items() if k.encode() not in own}
                if path.startswith(API):
                    more["cache-control"] = "no-store"
                message["headers"] = kept + [(k.encode(), v.encode()) for k, v in more.items()]
            await send(message)

        refusal = self._refusal(scope["method"], path, headers)
        token = dict(parse_qsl(scope["query_string"].decode("latin-1"))).get("token")
        if refusal is not None:
            await _answer(sealed, *refusal)
        elif token is not None and path == "/" and self._is_token(token):
            await _answer(sealed, 303, "", self._welcome(scope))
        elif not self._is_known(headers):
            await _answer(sealed, 401, NO_TOKEN)
        else:
            await self._app(scope, receive, sealed)

    def _refusal(self, method: str, path: str, headers: Headers) -> tuple[int, str] | None:
        host = headers.get("host", "")
        name = (host if host.endswith("]") else host.rpartition(":")[0] or host).lower()
        if name not in self._hosts and not (self._addresses and _is_address(name)):
            return 421, (
                f"The host {name[:100]!r} is not served. Use localhost, or start the server with "
                f"--allowed-host {name[:100]}."
            )
        site = headers.get("sec-fetch-site", "none")
        if path.startswith(API) and site not in ("same-origin", "none"):
            return 403, "Requests from other sites are refused."
        if method not in ("GET", "HEAD") and OURS not in headers:
            return 403, f"A request that changes something requires the header {OURS}."
        return None

    def _is_known(self, headers: Headers) -> bool:
        scheme, _, bearer = headers.get("authorization", "").partition(" ")
        if scheme.lower() == "bearer" and self._is_token(bearer):
            return True
        try:
            cookie = SimpleCookie(headers.get("cookie", "")).get(self._cookie)
        except CookieError:
            return False
        return cookie is not None and self._is_token(cookie.value)

    def _is_token(self, given: str) -> bool:
        return hmac.compare_digest(given.encode("utf-8", "replace"), self._token)

    def _welcome(self, scope: Scope) -> Headers:
        """Headers that hand out the cookie and take the token out of the address."""
        rest = [(k, v) for k, v in parse_qsl(scope["query_string"].decode("latin-1"))]
        query = urlencode([(k, v) for k, v in rest if k != "token"])
        cookie = (
            f"{self._cookie}={self._token.decode()}; HttpOnly; SameSite=Lax; Path=/; "
            f"Max-Age={COOKIE_S}"
        )
        return {"location": f"./{'?' * bool(query)}{query}", "set-cookie": cookie}


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name.strip("[]"))
    except ValueError:
        return False
    return True


async def _answer(send: Send, status: int, text: str, headers: Headers | None = None) -> None:
    body = json.dumps({"error": text}).encode() if text else b""
    own = {"content-type": "application/json", "content-length": str(len(body)), **(headers or {})}
    if status == 401:
        own["content-type"], body = "text/plain; charset=utf-8", text.encode()
        own["content-length"] = str(len(body))
    pairs = [(key.encode(), value.encode("latin-1")) for key, value in own.items()]
    await send({"type": "http.response.start", "status": status, "headers": pairs})
    await send({"type": "http.response.body", "body": body})
