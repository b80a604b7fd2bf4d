"""Formats of secrets that can be recognized without a name: tokens, keys, addresses, headers.

Each format begins with text that does not occur in ordinary words, hashes, paths and numbers. The
issuers document these prefixes; secret scanners such as gitleaks and detect-secrets list them.
"""

from __future__ import annotations

import re

_WORD = r"[A-Za-z0-9_-]"
_TOKENS = (
    r"(?:AKIA|ASIA|AROA|AIDA|AGPA|ANPA|ABIA|ACCA)[A-Z0-9]{16}(?![A-Za-z0-9])",  # AWS
    r"AIza[\w-]{30,}|ya29\.[\w.-]{20,}|GOCSPX-[\w-]{20,}|1//0[\w-]{30,}",  # Google
    r"[A-Za-z0-9~_.-]{3}[78]Q~[A-Za-z0-9~_.-]{31,}",  # Azure, clients
    r"[A-Za-z0-9+/]{30,76}(?:AAAAA|ACDb|\+ASt|AzSe)[A-Za-z0-9+/]{4,}={0,2}",  # Azure, resources
    r"gh[pousr]_[A-Za-z0-9]{20,}|github_pat_\w{20,}",
    r"gl[a-z]{2,6}-[\w.-]{20,}|GR1348941[\w-]{20}",  # GitLab
    r"hf_[A-Za-z0-9]{20,}|api_org_[A-Za-z0-9]{20,}",
    r"sk-(?:proj|svcacct|admin|None|ant|or|lf)-[\w-]{20,}",  # OpenAI, Anthropic, OpenRouter
    r"sk-(?=[A-Za-z]*\d)[A-Za-z0-9]{20,}",
    r"xai-\w{20,}|gsk_\w{20,}|pplx-\w{20,}|r8_\w{20,}|nvapi-[\w-]{20,}|fw_[A-Za-z0-9]{20,}",
    r"lsv2_[a-z]{2}_[\w]{20,}|pcsk_\w{20,}|tgp_v1_[\w-]{20,}|wandb_v\d_\w{20,}|jina_\w{20,}",
    r"xox[abeoprs][.-][\w.-]{10,}|xapp-\d-[\w-]{10,}",  # Slack
    r"(?:sk|rk|pk)_(?:live|test)_\w{10,}|whsec_[\w+/=]{20,}",  # Stripe
    r"eyJ[\w-]{8,}(?:\.[\w-]{4,}){1,4}|eyJ[\w+/-]{30,}={0,2}",  # JWT; Neptune
    r"npm_\w{30,}|pypi-[\w-]{40,}|rubygems_\w{40,}|dckr_[a-z]+_[\w-]{20,}",
    r"SG\.[\w-]{16,}\.[\w-]{16,}|(?:AC|SK)[0-9a-f]{32}(?!\w)|key-[0-9a-f]{32}(?!\w)",  # mail, SMS
    r"[0-9a-f]{32}-us\d{1,2}(?!\w)",  # Mailchimp
    r"\d{8,10}:AA[\w-]{30,}",  # Telegram
    r"[MNO][\w-]{23,27}\.[\w-]{6}\.[\w-]{27,}",  # Discord
    r"do[opr]_v1_\w{40,}|dapi[0-9a-f]{32}|HRKU-[\w-]{30,}|shp[a-z]{2}_[0-9a-fA-F]{32}",
    r"EAAA[\w-]{50,}|sq0[a-z]{3}-[\w-]{20,}|lin_api_\w{20,}|secret_[A-Za-z0-9]{43}|ntn_\w{30,}",
    r"gl[cs]a?_[\w+/=]{30,}|hv[sbr]\.[\w-]{20,}|\w{14}\.atlasv1\.[\w-]{40,}|sbp_\w{30,}",
    r"pscale_\w+_[\w.-]{30,}|dp\.[a-z]{2,5}\.\w{30,}|PMAK-[\w-]{30,}|NRAK-\w{20,}|sntr[yu]s_\w{20,}",
    r"pat[A-Za-z0-9]{14}\.[0-9a-f]{40,}|AGE-SECRET-KEY-1\w{40,}|figd_[\w-]{30,}|tskey-[\w-]{20,}",
)
TOKEN = re.compile(rf"(?<![A-Za-z0-9])(?:{'|'.join(_TOKENS)})")
"""Tokens with a documented prefix."""
SHORTEST_LONG = 20
LONG = re.compile(rf"(?<![\w.~+/=:-])[\w.~+/=:-]{{{SHORTEST_LONG},}}")
"""Texts that may contain a token; searching for these first takes a fifth of the time."""

PRIVATE_KEY = re.compile(
    r"(?P<begin>-----BEGIN [A-Z0-9 ]*PRIVATE KEY[A-Z ]*-----).*?"
    r"(?P<end>-----END [A-Z0-9 ]*PRIVATE KEY[A-Z ]*-----|\Z)",
    re.DOTALL,
)
KEY_BEGINS, KEY_ENDS = re.compile("-----BEGIN [A-Z0-9 ]*PRIVATE KEY"), re.compile("-----END ")
KEY_LINE_LENGTH = 60
KEY_LINE = re.compile(
    r"^[\s\"']*(?=[^\sA-Z]*[A-Z])(?=\S*[a-z])(?=\S*\d)[A-Za-z0-9+/]{60,76}(?!\S*\.)"
)
"""Line of a private key whose first line is in another text."""

IN_URL = re.compile(r"(?<=://)(?P<user>[^\s/?#@:'\"<>]*):[^\s/?#'\"<>]*@")
IN_DATABASE_URL = re.compile(
    r"(?<![a-z])(?P<scheme>(?:postgres(?:ql)?|mysql|mariadb|mongodb|rediss?|amqps?|mssql|oracle"
    r"|clickhouse|snowflake|cockroachdb|db2|sqlserver)(?:\+\w+)*://)[^\s'\"<>@/:]*:[^\s'\"<>]*@",
    re.IGNORECASE,
)
"""A user with a password; a database password may contain `/`, `?` and `#`."""
USER_IN_URL = re.compile(r"(?<=://)(?=[^\s/@]*\d)[A-Za-z0-9_~.-]{20,}@")
"""A token in the user part of a URL."""
WEBHOOK = re.compile(
    r"(?P<begin>hooks\.slack\.com/(?:services|workflows|triggers)/"
    r"|discord(?:app)?\.com/api/webhooks/|\.webhook\.office\.com/webhookb2/"
    r"|outlook\.office\.com/webhook/|api\.telegram\.org/bot)[^\s'\"<>?]+"
)
QUERY = re.compile(r"(?P<name>[?&](?P<last>[\w.-]+)=)(?P<value>[^\s&#'\"<>]+)")
"""A parameter of a URL."""
SIGNATURE = re.compile(
    r"(?<![\w])(?P<name>sig(?:nature)?=)[A-Za-z0-9%+/]{20,}[=%3D]*", re.IGNORECASE
)

HEADER = re.compile(
    r"(?P<name>(?:authorization|x-api-key|x-auth-token|private-token|cookie)['\"]?\s*[:=]\s*['\"]?"
    r"(?:(?:bearer|basic|token|digest|apikey)\s+)?)(?P<value>[^\s'\",]{3,}(?:;[^'\"\n]*)?)"
    r"|(?P<scheme>\b(?:bearer|basic)\s+)(?=[\w.~+/=-]*[\d=])[\w.~+/-]{8,}=*",
    re.IGNORECASE,
)
CURL_USER = re.compile(
    r"(?P<name>\bcurl\b[^\n]{0,500}?\s(?:-u|--user)[ =]?\s*['\"]?[^\s:'\"]+:)[^\s'\"]+"
)
SERVICES = ("wandb", "weights & biases", "kaggle", "comet", "neptune", "datadog", "clearml")
KAGGLE = re.compile(r"(?P<name>\"username\"\s*:\s*\"[^\"]*\",\s*\"key\"\s*:\s*\")[0-9a-f]{32}")
NEAR_A_SERVICE = re.compile(
    rf"(?P<name>(?:{'|'.join(SERVICES)})"
    r"(?:(?!commit|sha|rev|hash|run)[^\n]){0,60}?)(?<![\w/.-])"
    r"(?:[0-9a-f]{40}|[0-9a-f]{32}|[A-Za-z0-9]{25})(?![\w/.-])",
    re.IGNORECASE,
)
"""A key without a prefix on the same line as the name of a service whose keys have no prefix."""

_FREE = r"(?<![A-Za-z0-9+/_.@:-])"
UNNAMED = re.compile(rf"{_FREE}(?:[A-Za-z0-9+/]{{86}}==|[A-Za-z0-9+/]{{40}})(?![A-Za-z0-9+/=_.-])")
"""Secrets of AWS and of Azure Storage, if they look random (see `masking`)."""
