"""Mask secrets in everything that is stored or shown of a run.

A secret is found by its format (see `secret_formats`) or by its name. Commits, digests, names of
files and tensors, and numbers are not masked.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
import re
from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

import msgspec

from mothtrap.core import secret_formats as formats

T = TypeVar("T")
MASKED = "***"
_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")
_SURE = frozenset(
    {"password", "passwd", "passphrase", "pwd", "secret", "apikey", "accesskey", "secretkey"}
    | {"authtoken", "accesstoken", "accountkey", "privatekey", "credential", "credentials"}
)
"""Last words of a name whose value is always a secret."""
_LIKELY = frozenset({"key", "token", "auth", "authorization", "signature", "cookie", "pat", "pass"})
"""Last words of a name whose value is masked if it looks like a secret or is an argument."""
_MAKES_SURE = frozenset(
    {"api", "access", "secret", "private", "account", "encryption", "signing", "subscription"}
    | {"license", "client", "auth", "service", "storage", "shared", "admin", "deploy", "refresh"}
    | {"bearer", "session", "security", "hf", "hub", "github", "gitlab", "wandb", "openai", "bot"}
    | {"anthropic", "slack", "stripe", "npm", "pypi", "neptune", "comet", "aws", "azure", "gcp"}
    | {"google", "kaggle", "mlflow", "databricks", "personal", "huggingface", "app", "master"}
)
"""Words before `key` or `token` that make the value a secret for certain."""
_HARMLESS = frozenset(
    {"pad", "eos", "bos", "unk", "sep", "cls", "mask", "special", "next", "image", "start", "end"}
    | {"stop", "per", "first", "last", "sort", "cache", "public", "primary", "foreign", "metric"}
    | {"monitor", "state", "rng", "prng", "dict", "max", "min", "num", "label", "input", "target"}
    | {"attn", "attention", "batch", "loss", "column", "group", "forward", "one", "single", "key"}
)
"""Words before `key`, `token` or `pass` that make the name harmless."""
_NAMED = re.compile(
    r"(?P<last>passw(?:or)?d|passphrase|pwd|secret|token|key|auth|signature|credentials?|cookie"
    r"|pass|pat)(?P<sep>\\?['\"]?\]?(?:"
    r"[ \t]*:[ \t]*[a-z_][\w.\[\] |]{0,40}?[ \t]*=[ \t]*(?=[rbfu]{0,2}['\"])"
    r"|[ \t]*(?:=>|:=|==?|:)[ \t]*|[ \t]+(?=['\"])|(?<=['\"]),[ \t]*(?=['\"])|>(?=[^<\s]+</)))"
    r"(?:[rbfu]{0,2}(?P<quote>\\?(?:'''|\"\"\"|['\"]))(?P<quoted>(?:(?!(?P=quote)).)*)"
    r"|(?P<bare>[^\s'\"]+?)(?=[,;&)\]}>]{0,8}(?:\s|$|['\"])|</|[,;&]\s{0,8}[\w.-]{1,60}\s{0,8}[=:]))"
)
"""A name, a separator, and the value, in lowercase text."""
_FLAG = re.compile(r"(?<!\S)(?P<name>--[\w.-]+)(?P<sep>[ \t]+['\"]?)(?P<value>[^\s'\"-][^\s'\"]*)")
_BEFORE = re.compile(r"(?P<word>\b[A-Za-z]+ )?(?P<name>[\w.-]*)$")
_CODE = re.compile(
    r"[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*[(\[].*|(?:[A-Za-z_]+\.)+[A-Za-z_]+|[<${*%\[(|].*|\.{2,}.*"
    r"|(?:none|null|true|false|str|bytes|int|optional|any)",
    re.IGNORECASE,
)
"""A value that is an expression of a program or a placeholder."""
_ORDINARY = re.compile(r"(?:[A-Za-z]*\d{0,3}(?:[^A-Za-z0-9]++|$))*+|[\d.,eE+-]*")
"""Words with small numbers, such as `block1_conv2`, and numbers. The pattern does not backtrack
within a word: a long line of dashes would take forever.
"""
_NAME = re.compile(r"[A-Za-z0-9_.]*")
"""A text that can be a secret only if it is a token."""
SHORT = 200
"""Maximum length of a text whose masked form is cached, because names and messages are shown
repeatedly. Chosen by hand; the cache takes at most 4 MB.
"""
_NUMBERS = frozenset({int, float, bool, type(None)})
_HEX = re.compile(r"[0-9a-f]*|[0-9A-F]*")
_HEADERS = ("authorization", "bearer", "basic", "cookie", "x-", "-token")
_SMALL = str.maketrans({chr(c): chr(c + 32) for c in range(ord("A"), ord("Z") + 1)})


def without_secrets(text: str) -> str:
    """Return a text in which secrets are masked."""
    if _NAME.fullmatch(text):  # every other format contains a separator
        return text if len(text) < formats.SHORTEST_LONG else _of_name(text)
    return _of_short(text) if len(text) <= SHORT else _masked(text)


@functools.lru_cache(maxsize=8192)
def _of_name(text: str) -> str:
    return formats.LONG.sub(_of_long, text)


@functools.lru_cache(maxsize=8192)
def _of_short(text: str) -> str:
    return _masked(text)


def _masked(text: str) -> str:
    lowered = text.lower()
    if "-----begin" in lowered:
        text = formats.PRIVATE_KEY.sub(_of_private_key, text)
    if "://" in text or "?" in text or "&" in text or "sig" in lowered:
        text = _without_secrets_of_urls(text)
    text = formats.LONG.sub(_of_long, text)
    if any(word in lowered for word in _HEADERS):
        text = formats.HEADER.sub(lambda found: f"{found['name'] or found['scheme']}{MASKED}", text)
    if "curl" in lowered:
        text = formats.CURL_USER.sub(rf"\g<name>{MASKED}", text)
    if "--" in text:
        text = _FLAG.sub(_of_flag, text)
    text = _without_named(text)
    if any(word in lowered for word in formats.SERVICES):
        text = formats.NEAR_A_SERVICE.sub(rf"\g<name>{MASKED}", text)
    if "username" in lowered:
        text = formats.KAGGLE.sub(rf"\g<name>{MASKED}", text)
    return text


def arguments_without_secrets(arguments: Sequence[str]) -> tuple[str, ...]:
    """Return a command line in which secrets are masked."""
    found: list[str] = []
    flag = ""
    for argument in arguments:
        name, sign, value = argument.partition("=")
        if flag and not argument.startswith("-") and _is_given_secret(flag, argument):
            found.append(MASKED)
        elif sign and _is_argument(name, value) and _is_given_secret(name, value):
            found.append(f"{name}={MASKED}")
        else:
            found.append(without_secrets(argument))
        flag = argument if argument.startswith("-") and not sign else ""
    return tuple(found)


def names_secret(name: str) -> bool:
    """Return whether a name suggests that its value is a secret."""
    return _strength(name) > 0


def shareable(value: T) -> T:
    """Return a copy of a value with the secrets in every text masked.

    Args:
        value: strings, numbers, lists, tables, structs and dataclasses, nested to any depth. Lists
            of strings are treated as command lines and as lines of one text; other objects are
            unchanged.
    """
    found: T = _shareable(value)
    return found


def _shareable(value: Any) -> Any:
    if type(value) in _NUMBERS:
        return value
    if isinstance(value, str):
        return without_secrets(value) if type(value) is str else value
    if isinstance(value, list | tuple) and type(value) in (list, tuple):
        kinds = set(map(type, value))
        if kinds <= _NUMBERS:
            return value
        if kinds == {str}:
            return type(value)(_lines_without_secrets(value))
        return type(value)([i if type(i) in _NUMBERS else _shareable(i) for i in value])
    if isinstance(value, Mapping) and type(value) is dict:
        return {_shareable(key): _shareable(item) for key, item in value.items()}
    if isinstance(value, msgspec.Struct):
        fields = value.__struct_fields__
        return _replaced(value, fields, msgspec.structs.replace)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        fields = tuple(field.name for field in dataclasses.fields(value) if field.init)
        return _replaced(value, fields, dataclasses.replace)
    return value


def _replaced(value: Any, fields: Sequence[str], replace: Any) -> Any:
    before = {name: getattr(value, name) for name in fields}
    after = {name: _shareable(part) for name, part in before.items()}
    changes = {name: part for name, part in after.items() if part is not before[name]}
    return replace(value, **changes) if changes else value


def _lines_without_secrets(lines: Sequence[str]) -> list[str]:
    """Mask secrets in texts that may be words of a command or lines of a private key."""
    found: list[str] = []
    inside = False
    for line in arguments_without_secrets(lines):
        if not inside and len(line) < formats.KEY_LINE_LENGTH and "-----" not in line:
            found.append(line)
            continue
        begins, ends = formats.KEY_BEGINS.search(line), formats.KEY_ENDS.search(line)
        if (inside and not ends) or (not begins and formats.KEY_LINE.match(line)):
            line = MASKED
        inside = bool(begins or inside) and not ends
        found.append(line)
    return found


def _without_secrets_of_urls(text: str) -> str:
    text = formats.IN_DATABASE_URL.sub(rf"\g<scheme>{MASKED}@", text)
    text = formats.IN_URL.sub(f"{MASKED}@", text)
    text = formats.USER_IN_URL.sub(f"{MASKED}@", text)
    text = formats.WEBHOOK.sub(rf"\g<begin>{MASKED}", text)
    text = formats.QUERY.sub(_of_query, text)
    return formats.SIGNATURE.sub(rf"\g<name>{MASKED}", text)


def _of_private_key(found: re.Match[str]) -> str:
    lines = "\n" * found[0].count("\n")  # the lines below keep their numbers
    return f"{found['begin']}{MASKED}{lines}{found['end']}"


def _of_query(found: re.Match[str]) -> str:
    last = found["last"].lower()
    masks = last.endswith(("sig", "accesskeyid")) or names_secret(last)
    if last in ("key", "code", "pass"):
        masks = not _ORDINARY.fullmatch(found["value"])
    return f"{found['name']}{MASKED}" if masks else found[0]


def _of_long(found: re.Match[str]) -> str:
    text = formats.TOKEN.sub(MASKED, found[0])
    return formats.UNNAMED.sub(lambda part: MASKED if _is_random(part[0]) else part[0], text)


def _of_flag(found: re.Match[str]) -> str:
    secret = _is_given_secret(found["name"], found["value"]) and not _CODE.fullmatch(found["value"])
    return f"{found['name']}{found['sep']}{MASKED}" if secret else found[0]


def _without_named(text: str) -> str:
    """Mask the values that a text assigns to secret names."""
    small = text.lower()
    if len(small) != len(text):  # some letters have two lowercase forms
        small = text.translate(_SMALL)
    parts: list[str] = []
    done = 0
    for found in _NAMED.finditer(small):
        begin, end = found.span("bare" if found["quote"] is None else "quoted")
        if _gives_secret(text, found, text[begin:end]):
            parts += [text[done:begin], MASKED]
            done = end
    return "".join([*parts, text[done:]]) if parts else text


def _gives_secret(text: str, found: re.Match[str], value: str) -> bool:
    """Return whether a value that a text assigns to a name is a secret."""
    begin, end = found.span("last")
    before = _BEFORE.search(text, max(0, begin - 60), begin)
    word, name = (before["word"] or "", before["name"]) if before is not None else ("", "")
    name += text[begin:end]
    strength = _strength(name)
    if not strength or not value.strip() or _CODE.fullmatch(value):
        return False
    if strength == 2:
        return True
    if word.strip().lower() in _HARMLESS or " " in value or found["sep"].isspace():
        return False
    letters, digits = any(map(str.isalpha, value)), any(map(str.isdigit, value))
    if name.lower().endswith("token") and found["quote"] and len(value) >= 6 and letters and digits:
        return True
    return (
        len(value) >= 8
        and not _ORDINARY.fullmatch(value)
        and (found["last"] != "key" or name.isupper() or not _HEX.fullmatch(value))
    )


def _is_given_secret(name: str, value: str) -> bool:
    """Return whether the value of an argument is a secret."""
    strength = _strength(name)
    number = value.replace(".", "", 1).lstrip("-").isdigit()
    return strength == 2 or (strength == 1 and not number and bool(value))


def _strength(name: str) -> int:
    """Return 2 if every value of the name is a secret, 1 if only likely values are, else 0."""
    words = [word.lower() for word in _WORD.findall(re.split(r"[./\[]", name.rstrip("'\"]"))[-1])]
    if not words:
        return 0
    last, before = words[-1], set(words[:-1])
    if last in _SURE or last.endswith(("password", "passwd", "apikey", "passphrase")):
        return 2
    if last not in _LIKELY or before & _HARMLESS:
        return 0
    if last in ("key", "token") and (before & _MAKES_SURE or (before and name.isupper())):
        return 2
    return 1


def _is_argument(name: str, value: str) -> bool:
    """Return whether `name=value` is an argument rather than a line of a program."""
    named = re.fullmatch(r"[-+]*[A-Za-z_][\w.-]*", name) is not None
    return named and (name.startswith("-") or not _CODE.fullmatch(value))


def _is_random(text: str) -> bool:
    """Return whether letters and digits alternate, as they do in no path and no digest."""
    kinds = [0 if c.islower() else 1 if c.isupper() else 2 for c in text if c.isalnum()]
    changes = sum(a != b for a, b in itertools.pairwise(kinds))
    return len(set(kinds)) == 3 and changes >= 0.4 * len(kinds) and text.count("/") < 4
