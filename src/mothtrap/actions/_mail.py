"""Send mail to the address of a `mailto` URL of Apprise, with mothtrap's own Message-ID."""

from __future__ import annotations

import smtplib
import socket
import ssl
from email.message import EmailMessage
from email.utils import formataddr, formatdate
from typing import Any

from mothtrap.actions._deadline import Deadline

TIMEOUT_S = 15.0
"""Limit for the whole exchange; Apprise applies the same limit to each step."""


class _Server(smtplib.SMTP):
    """Mail server with a deadline; with a context, the connection starts with TLS."""

    def __init__(self, deadline: Deadline, context: ssl.SSLContext | None) -> None:
        super().__init__(timeout=deadline.left_s)
        self._deadline, self._context = deadline, context

    def _get_socket(self, host: str, port: int, _: float) -> socket.socket:
        # The only hook of smtplib for connecting; SMTP_SSL replaces it, too.
        made = self._deadline.connect((host, port))
        self._host = host  # STARTTLS checks the certificate against it
        if self._context is None:
            return made
        return self._context.wrap_socket(made, server_hostname=host)


def is_mail(sender: Any) -> bool:
    """Return whether an Apprise object sends plain mail by SMTP."""
    names = ("smtp_host", "secure_mode", "from_addr", "targets", "cc", "bcc")
    return all(hasattr(sender, n) for n in names) and getattr(sender, "pgp_mode", "no") == "no"


def send_mail(sender: Any, title: str, body: str, delivery: str) -> bool:
    """Send a mail to all recipients of a `mailto` URL.

    Args:
        sender: Apprise object created from the URL.
        title: subject.
        body: text.
        delivery: Message-ID of the mail.

    Returns:
        Whether the server accepted the mail for every recipient.

    Raises:
        OSError: the server cannot be reached, or refuses the mail (`smtplib.SMTPException`).
    """
    mail = EmailMessage()
    mail["Subject"] = title
    mail["From"] = formataddr((sender.from_addr[0] or "", sender.from_addr[1]))
    mail["To"] = ", ".join(formataddr((name or "", to)) for name, to in sender.targets)
    if sender.cc:
        mail["Cc"] = ", ".join(sorted(sender.cc))
    mail["Date"] = formatdate(localtime=True)
    mail["Message-ID"] = f"<{delivery}@mothtrap>"
    mail.set_content(body)
    everyone = [*(to for _, to in sender.targets), *sender.cc, *sender.bcc]
    secure, context = str(sender.secure_mode), ssl.create_default_context()
    if not sender.verify_certificate:
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    port = sender.port or {"ssl": 465, "starttls": 587}.get(secure, 25)
    first = context if secure == "ssl" else None
    with Deadline(TIMEOUT_S) as deadline, _Server(deadline, first) as server:
        server.connect(sender.smtp_host, port)
        if secure == "starttls":
            server.starttls(context=context)
        if sender.user and sender.password:
            server.login(sender.user, sender.password)
        return not server.send_message(mail, sender.from_addr[1], everyone)
