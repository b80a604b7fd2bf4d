"""Sources of credentials, region and endpoint of S3."""

from __future__ import annotations

from pathlib import Path

import pytest

from mothtrap.core.errors import ConfigError
from mothtrap.store.backends._aws import settings

CREDENTIALS = """
[default]
aws_access_key_id = default-key
aws_secret_access_key = default-secret
[team]
aws_access_key_id = team-key
aws_secret_access_key = team-secret
aws_session_token = team-token
"""
CONFIG = """
[profile team]
region = eu-north-1
endpoint_url = http://localhost:9000
[profile role]
role_arn = arn:aws:iam::1:role/x
source_profile = default
"""


@pytest.fixture
def environ(tmp_path: Path) -> dict[str, str]:
    (tmp_path / ".aws").mkdir()
    (tmp_path / ".aws" / "credentials").write_text(CREDENTIALS)
    (tmp_path / ".aws" / "config").write_text(CONFIG)
    return {"HOME": str(tmp_path)}


def test_without_anything_the_default_profile_is_taken(environ: dict[str, str]) -> None:
    assert settings(environ).config == {
        "access_key_id": "default-key",
        "secret_access_key": "default-secret",
    }


def test_a_named_profile_brings_region_and_endpoint(environ: dict[str, str]) -> None:
    found = settings(environ | {"AWS_PROFILE": "team"})
    assert found.config == {
        "access_key_id": "team-key",
        "secret_access_key": "team-secret",
        "session_token": "team-token",
        "region": "eu-north-1",
        "endpoint": "http://localhost:9000",
    }
    assert found.allow_http


@pytest.mark.parametrize(
    "name", ["AWS_ACCESS_KEY_ID", "AWS_WEB_IDENTITY_TOKEN_FILE", "AWS_SKIP_SIGNATURE"]
)
def test_keys_of_the_environment_come_before_a_profile(name: str, environ: dict[str, str]) -> None:
    assert settings(environ | {name: "x"}).config == {}


def test_the_environment_names_region_and_endpoint(environ: dict[str, str]) -> None:
    own = {"AWS_ENDPOINT_URL": "https://here", "AWS_REGION": "x", "AWS_PROFILE": "team"}
    found = settings(environ | own)
    assert found.config["endpoint"] == "https://here"
    assert "region" not in found.config  # the client reads it
    assert not found.allow_http
    own["AWS_ENDPOINT_URL_S3"] = "http://there"
    assert settings(environ | own).config["endpoint"] == "http://there"


def test_files_may_lie_elsewhere(environ: dict[str, str], tmp_path: Path) -> None:
    (tmp_path / "other").write_text("[default]\naws_access_key_id = a\n")
    found = settings(environ | {"AWS_SHARED_CREDENTIALS_FILE": str(tmp_path / "other")})
    assert found.config == {"access_key_id": "a"}


def test_a_profile_with_a_role_is_resolved_by_boto3(
    environ: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in environ.items():
        monkeypatch.setenv(name, value)
    assert settings(environ | {"AWS_PROFILE": "role"}).provider is not None


def test_a_profile_that_is_not_there_is_named(environ: dict[str, str]) -> None:
    with pytest.raises(ConfigError, match="AWS_PROFILE names the profile 'gone'"):
        settings(environ | {"AWS_PROFILE": "gone"})


def test_a_file_that_cannot_be_read_is_named(environ: dict[str, str], tmp_path: Path) -> None:
    (tmp_path / ".aws" / "config").write_text("no section")
    with pytest.raises(ConfigError, match="cannot read AWS settings from"):
        settings(environ)
