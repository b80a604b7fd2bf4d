"""Secrets of every common kind are masked, and nothing that only resembles one."""

from __future__ import annotations

import base64
import json
import random
import string
from collections.abc import Sequence
from dataclasses import dataclass

import msgspec
import pytest

from mothtrap.core.masking import arguments_without_secrets, shareable, without_secrets

WORDS = string.ascii_letters + string.digits
HEX = "0123456789abcdef"
BASE32 = string.ascii_uppercase + "234567"
_draw = random.Random(5)


def drawn(length: int, signs: str = WORDS) -> str:
    """Return random text: in the source, scanners would report such secrets."""
    return "".join(_draw.choice(signs) for _ in range(length))


def encoded(**values: object) -> str:
    return base64.urlsafe_b64encode(json.dumps(values).encode()).decode().rstrip("=")


TOKENS = {
    "AWS id": "AKIA" + drawn(16, BASE32),
    "AWS temporary id": "ASIA" + drawn(16, BASE32),
    "AWS secret": drawn(20) + "/+" + drawn(18),
    "Google API key": "AIza" + drawn(35, WORDS + "-_"),
    "Google OAuth": "ya29." + drawn(60, WORDS + "-_"),
    "Google client": "GOCSPX-" + drawn(28),
    "Azure storage": drawn(86, WORDS + "+/") + "==",
    "Azure client": drawn(3) + "8Q~" + drawn(34),
    "GitHub": "ghp_" + drawn(36),
    "GitHub fine": "github_pat_" + drawn(22) + "_" + drawn(59),
    "GitLab": "glpat-" + drawn(20),
    "Hugging Face": "hf_" + drawn(34, string.ascii_letters),
    "OpenAI": "sk-" + drawn(20) + "T3BlbkFJ" + drawn(20),
    "OpenAI project": "sk-proj-" + drawn(60, WORDS + "-_"),
    "Anthropic": "sk-ant-api03-" + drawn(90, WORDS + "-_") + "AA",
    "Slack": "xoxb-" + drawn(11, string.digits) + "-" + drawn(12, string.digits) + "-" + drawn(24),
    "Stripe": "sk_live_" + drawn(24),
    "JWT": f"{encoded(alg='HS256')}.{encoded(sub='1')}.{drawn(43, WORDS + '-_')}",
    "npm": "npm_" + drawn(36),
    "PyPI": "pypi-AgEIcHlwaS5vcmc" + drawn(150, WORDS + "-_"),
    "Neptune": encoded(api_address="https://app.neptune.ai", api_key="x") + "==",
    "Databricks": "dapi" + drawn(32, HEX),
    "Vault": "hvs." + drawn(90),
    "SendGrid": f"SG.{drawn(22)}.{drawn(43)}",
    "Telegram": "123456789:AA" + drawn(33),
    "Groq": "gsk_" + drawn(52),
    "NVIDIA": "nvapi-" + drawn(64),
}
PLACES = ("{}", "print: {}", "x = '{}'", '{{"a": "{}"}}', "({})", "a,{},b", "[{}]\n", "--x={}")


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("kind", TOKENS)
def test_a_token_is_known_by_its_format(kind: str, place: str) -> None:
    masked = without_secrets(place.format(TOKENS[kind]))
    assert TOKENS[kind] not in masked
    assert "***" in masked


VALUE = "hunter2"
NAMED = (
    *("password={}", "password: {}", "PASSWORD={}", "DB_PASSWORD='{}'", 'db_password = "{}"'),
    *("MYSQL_PWD={}", "PGPASSWORD={} psql", "--password {}", "run.py --db-password {} --lr 3"),
    *("{{'password': '{}'}}", '{{"password": "{}"}}', "config.password='{}'", "Password = {}"),
    *("os.environ['DB_PASSWORD'] = '{}'", 'os.environ.setdefault("DB_PASSWORD", "{}")'),
    *("api_key: str = '{}'", "client_secret={}", "export SECRET={}", "passphrase={}"),
    *("user=me password={} host=h", "(password={}, user=x)", "MLFLOW_TRACKING_PASSWORD={}"),
    *('{{\\"password\\": \\"{}\\"}}', "<password>{}</password>", "wrong password '{}'"),
    *("postgres://u:{}@h:5432/db", "mongodb+srv://u:{}@c.net/?x=1", "redis://:{}@h:6379/0"),
    *("https://me:{}@h/x", "postgresql+psycopg2://u:{}@h/db", "curl -u me:{} https://h"),
    *("https://h/x?token={}", "https://h/?a=1&api_key={}&b=2", "AccountKey={};EndpointSuffix=x"),
    *("x-api-key: {}", "Authorization: token {}", "Cookie: session={}; a=b"),
)


@pytest.mark.parametrize("text", NAMED)
def test_a_password_is_known_by_its_name(text: str) -> None:
    masked = without_secrets(text.format(VALUE))
    assert VALUE not in masked
    assert "***" in masked


KEY40, KEY32, KEY25 = drawn(40, HEX), drawn(32, HEX), "a1" + drawn(23)


@pytest.mark.parametrize(
    ("text", "secret"),
    [
        (f"WANDB_API_KEY={KEY40}", KEY40),
        (f"wandb login {KEY40}", KEY40),
        (f"wandb.login(key='{KEY40}')", KEY40),
        (f"COMET_API_KEY={KEY25}", KEY25),
        (f"comet_ml.init(api_key='{KEY25}')", KEY25),
        (f"KAGGLE_KEY={KEY32}", KEY32),
        (f'{{"username": "me", "key": "{KEY32}"}}', KEY32),
        (f"https://b.s3.amazonaws.com/o?X-Amz-Date=1&X-Amz-Signature={KEY40}&x=1", KEY40),
        (f"https://storage.googleapis.com/o?X-Goog-Signature={KEY40}", KEY40),
        (f"https://x.blob.core.windows.net/f?sv=2022-11-02&sig={KEY32}%3D&se=1", KEY32),
        (f"https://hooks.slack.com/services/T0/B0/{KEY25}", KEY25),
        ("https://u:p@ssw0rd@h/db", "ssw0rd"),
        ("postgres://u:p@ss/w#rd?1@h/db", "w#rd"),
        ("PASSWORD=a&b;c,d)e(f", "e(f"),
        (f"Authorization: Basic {base64.b64encode(b'user:hunter2').decode()}", "dXNlcjpodW50"),
        (f"{{'Authorization': 'Bearer {KEY40}'}}", KEY40),
    ],
)
def test_a_key_is_known_by_what_stands_around_it(text: str, secret: str) -> None:
    assert secret not in without_secrets(text)


@pytest.mark.parametrize("kind", ["RSA PRIVATE KEY", "PRIVATE KEY", "OPENSSH PRIVATE KEY"])
def test_no_line_of_a_private_key_is_left(kind: str) -> None:
    lines = [drawn(64, WORDS + "+/") for _ in range(5)] + [drawn(30) + "=="]
    whole = [f"-----BEGIN {kind}-----", *lines, f"-----END {kind}-----"]
    texts = [without_secrets("\n".join(whole)), "\n".join(shareable(["before", *whole, "after"]))]
    texts += [without_secrets(json.dumps("\n".join(whole)))]
    texts += ["\n".join(shareable(whole[:3])), "\n".join(shareable(whole[2:5]))]
    for text in texts:
        assert not any(line in text for line in lines)
    assert texts[1].startswith("before\n")
    assert texts[1].endswith("\nafter")


ORDINARY = """\
commit 2fb0858c3f5d1a7e9b8c6d4f2a1e0b9c8d7f6e5a
sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08
gradient:blocks.0.attn.key.weight is nan, layers.0.attn.key: l2 3.4
num_tokens=512 max_new_tokens=128 pad_token="<pad>" eos_token: </s> PAD_TOKEN=50256
token: 42, next token: 'abc1234', tokens: ['a1b2c3', 'x'], tokens/s 53212
KeyError: 'layer1.weight'
loss=0.123456789 lr=1e-4 grad_norm=3.14159265358979 pass: 3 of 5
/home/user/data/ImageNet/train/n01440764/n01440764_10026.JPEG
/home/User1/Data2/ImageNet3/Train4/Run5a
train-20261121-201500 model-00001-of-00003.safetensors resnet50_a1_0-14fe96d1.pth
https://example.com/path/page.html?page=2&key=name#top http://localhost:8080/path@v2
git@github.com:org/repo.git https://github.com/a/b/commit/2fb0858c3f5d1a7e9b8c6d4f2a1e0b9c8d7f6e5a
sk-learn-random-forest-classifier hf_model_weights_layer block1_conv2_norm3
password = getpass.getpass()
api_key = os.environ["OPENAI_API_KEY"]
password=args.password
token = tokenizer.encode(text)
def f(password: str, token=None):
keys = sorted(d, key=lambda x: x[1])
uuid 123e4567-e89b-12d3-a456-426614174000 hash=0x7f3a9c2b1d4e
author: Bob Smith, Basic configuration loaded, Bearer authentication failed
cache_key = "2fb0858c3f5d1a7e9b8c6d4f2a1e0b9c8d7f6e5a"
rng key=[0 42] sort_key=name group_key=layer1block2x
signature: forward(x, mask=None)
--tokenizer gpt2 --max-tokens 512 --author Bob --keypoints 17 --pad-token-id 0
wandb: run id 3kq0sd8f commit 2fb0858c3f5d1a7e9b8c6d4f2a1e0b9c8d7f6e5a
encoder.layers.11.self_attn.k_proj.weight
compass: 12345abcd, pattern: ab12cd34ef56, monkey=banana12x3y
forward pass: layer1conv2x3y4
password must have 8 characters"""


@pytest.mark.parametrize("line", ORDINARY.split("\n"))
def test_ordinary_text_stays(line: str) -> None:
    assert without_secrets(line) == line
    assert shareable([line, "x"]) == [line, "x"]


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        (["t.py", "--lr", "3"], ("t.py", "--lr", "3")),
        (["t.py", "--api-key", "abc", "x"], ("t.py", "--api-key", "***", "x")),
        (["t.py", "--hf_token=abc"], ("t.py", "--hf_token=***")),
        (["t.py", "--password", "1234"], ("t.py", "--password", "***")),
        (["t.py", "wandb.api_key=abc"], ("t.py", "wandb.api_key=***")),
        (["t.py", "--auth", "--lr", "3"], ("t.py", "--auth", "--lr", "3")),
        (["t.py", "--max-token", "512"], ("t.py", "--max-token", "512")),
        (["env", "HF_TOKEN=abc", "t.py"], ("env", "HF_TOKEN=***", "t.py")),
        (["sh", "-c", "t.py --token abc"], ("sh", "-c", "t.py --token ***")),
        (["--db", "mysql://u:pw@h/d"], ("--db", "mysql://***@h/d")),
    ],
)
def test_secrets_of_a_command_line_are_masked(given: Sequence[str], kept: tuple[str, ...]) -> None:
    assert arguments_without_secrets(given) == kept


class Told(msgspec.Struct, frozen=True):
    """A struct like those in answers."""

    text: str
    parts: tuple[dict[str, object], ...] = ()


@dataclass(frozen=True)
class Outer:
    """A dataclass that contains it."""

    told: Told
    number: float = 1.5


def test_values_are_masked_in_any_depth_and_what_has_no_secret_is_the_same_object() -> None:
    inner: dict[str, object] = {"command": ["t.py", "--token", "abc"], "n": 3, "none": None}
    found = shareable(Outer(Told("password=x", (inner,))))
    parts = ({"command": ["t.py", "--token", "***"], "n": 3, "none": None},)
    assert found == Outer(Told("password=***", parts))
    plain = Outer(Told("loss 3"))
    assert shareable(plain) is plain


def test_masking_twice_changes_nothing() -> None:
    for text in (*TOKENS.values(), *(text.format(VALUE) for text in NAMED)):
        once = without_secrets(text)
        assert without_secrets(once) == once


@pytest.mark.parametrize("sign", list("-=_,)/:@#"))
def test_a_long_line_of_signs_takes_no_long_time(sign: str) -> None:
    line = sign * 400
    for text in (f'key = "{line}a1234x"', f"token={line}x12345", f"password={line * 20}x"):
        without_secrets(text)
    assert without_secrets(f'key = "{line}"') == f'key = "{line}"'
