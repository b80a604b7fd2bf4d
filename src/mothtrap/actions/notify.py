"""Send a short message by mail, SMS, Slack, Teams, PagerDuty ... through Apprise.

Needs the extra `notify`. URLs have Apprise's syntax; they come from the configuration, or from
the variable `MOTHTRAP_NOTIFY`, separated by white space. Messages have no attachments.
"""

from __future__ import annotations

import hashlib
import logging
import os
import socket
import threading
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from mothtrap.actions._mail import is_mail, send_mail
from mothtrap.core.actions import Action, Job
from mothtrap.core.errors import ConfigError, DeliveryError, MissingExtraError
from mothtrap.core.events import Event
from mothtrap.core.masking import without_secrets

VARIABLE = "MOTHTRAP_NOTIFY"
MAX_TITLE = 120
MAX_LINE = 500
"""Characters of a line of the message; chosen by hand, for channels that show little."""


@dataclass(frozen=True, slots=True)
class Notify:
    """Sends messages to one URL with `sender`, an Apprise object."""

    sender: Any = field(repr=False)
    label: str
    target: str
    is_message: bool = True

    def run(self, event: Event, job: Job, delivery: str) -> str:
        """Send the message; a mail has the same Message-ID on every attempt."""
        del job
        title, body = message(event)
        with _quiet_logs():
            try:
                if is_mail(self.sender):  # Apprise would make up another id for each attempt
                    sent = send_mail(self.sender, title, body, delivery)
                else:
                    sent = self.sender.notify(title=title, body=body, body_format="text")
            except Exception as err:  # of a plug-in of Apprise; its text may hold the URL
                raise DeliveryError(f"{self.label} failed ({type(err).__name__})") from None
        if not sent:
            raise DeliveryError(f"{self.label} did not accept the message")
        return f"{self.label} accepted the message"


def make(settings: object, where: str) -> Sequence[Action]:
    """Create an action for each URL.

    Args:
        settings: a URL or a list of them; None means `MOTHTRAP_NOTIFY`.
        where: source of the settings; errors identify a URL only by its position and scheme.
    """
    instantiate = _instantiate()
    source = where
    if settings is None:
        source, settings = VARIABLE, os.environ.get(VARIABLE, "").split()
    urls = [settings] if isinstance(settings, str) else settings
    if not isinstance(urls, list | tuple) or not urls:
        raise ConfigError(
            f"{where}: notify needs a list of URLs such as mailto://..., or {VARIABLE}"
        )
    made = []
    for place, url in enumerate(urls):
        with _quiet_logs(), warnings.catch_warnings():
            warnings.simplefilter("ignore")  # it imports a plug-in now
            sender = instantiate(url) if isinstance(url, str) else None
        if sender is None:
            scheme = str(url).partition("://")[0] if "://" in str(url) else ""
            known = f"; its scheme is {scheme!r}" if scheme.isalnum() else ""
            raise ConfigError(f"{source}: notify[{place}] is not a URL that Apprise reads{known}")
        digest = hashlib.blake2b(str(url).encode(), digest_size=8).hexdigest()
        scheme = str(url).partition("://")[0]
        made.append(Notify(sender, f"notify {scheme}", digest))
    return tuple(made)


def _instantiate() -> Callable[[str], Any]:
    """Return Apprise's function for reading URLs; it returns None for unreadable URLs."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a filter may turn warnings of imports into errors
        try:
            import apprise
        except ImportError as err:
            raise MissingExtraError("the action notify", "apprise", "notify") from err
    make: Callable[[str], Any] = apprise.Apprise.instantiate
    return make


def message(event: Event) -> tuple[str, str]:
    """Return the title and text of a message about an event."""
    finding = event.finding
    what = f"{finding.code} {finding.name}" if finding is not None else event.kind
    if event.rule is not None:
        what = f"{event.rule.code} {event.rule.name}: {event.rule.state}"
    word = event.kind.replace("_", " ")
    title = f"mothtrap: {what} ({word}) in {event.run}" if finding else f"{event.run}: {what}"
    lines = [event.text]
    if finding is not None:
        where = f" in {', '.join(finding.layers[:3])}" if finding.layers else ""
        lines.append(f"step {finding.step}{where}")
        lines += [f"at {finding.location}"] if finding.location else []
        lines += [f"try: {finding.fixes[0]}"] if finding.fixes and not event.follows else []
        lines += [f"follows from: {', '.join(event.follows)}"] if event.follows else []
        lines += [f"led to: {', '.join(event.leads_to)}"] if event.leads_to else []
    lines += [f"run: {event.run} on {socket.gethostname()}"]
    lines += [f"more: {event.next}"] if event.next else []
    return _line(title, MAX_TITLE), "\n".join(_line(line, MAX_LINE) for line in lines)


def _line(text: str, most: int) -> str:
    """Return a text as one printable line without secrets."""
    plain = "".join(c if c.isprintable() else " " for c in without_secrets(text))
    return plain if len(plain) <= most else f"{plain[: most - 1]}…"


@contextmanager
def _quiet_logs() -> Iterator[None]:
    """Hide Apprise's log messages of this thread, because they may contain parts of a URL."""
    here, logger = threading.get_ident(), logging.getLogger("apprise")

    def is_elsewhere(_: logging.LogRecord) -> bool:
        return threading.get_ident() != here

    logger.addFilter(is_elsewhere)
    try:
        yield
    finally:
        logger.removeFilter(is_elsewhere)
