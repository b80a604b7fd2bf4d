"""Credentials, region and endpoint of S3, from the same sources as AWS tools.

In this order: the environment (`AWS_ACCESS_KEY_ID`, `AWS_REGION`, `AWS_ENDPOINT_URL` ...);
the profile `AWS_PROFILE` (or `default`) of `~/.aws/credentials` and `~/.aws/config`;
a web identity, the container, or the machine's role. obstore handles the first and the last group.
A profile with a role, single sign-on or a process is resolved by boto3.
"""

from __future__ import annotations

import configparser
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mothtrap.core.errors import ConfigError

_KEYS = {
    "aws_access_key_id": "access_key_id",
    "aws_secret_access_key": "secret_access_key",
    "aws_session_token": "session_token",
}
_BY_BOTO3 = ("role_arn", "sso_session", "sso_start_url", "credential_process", "login_session")
_ELSEWHERE = (
    "AWS_ACCESS_KEY_ID",
    "AWS_WEB_IDENTITY_TOKEN_FILE",
    "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI",
    "AWS_CONTAINER_CREDENTIALS_FULL_URI",
    "AWS_SKIP_SIGNATURE",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """Settings of the client in addition to the environment."""

    config: Any
    allow_http: bool
    provider: Any = None


def settings(environ: Mapping[str, str] = os.environ) -> Settings:
    """Read profile and environment.

    Raises:
        ConfigError: the profile does not exist, or needs boto3, which is not installed.
    """
    profile = _profile(environ)
    config: dict[str, str] = {}
    if not {"AWS_REGION", "AWS_DEFAULT_REGION"} & environ.keys() and "region" in profile:
        config["region"] = profile["region"]
    endpoints = (environ.get(f"AWS_ENDPOINT_URL{s}") for s in ("_S3", ""))
    endpoint = next(filter(None, endpoints), profile.get("endpoint_url", ""))
    if endpoint:
        config["endpoint"] = endpoint
    provider = None
    explicit = "AWS_PROFILE" in environ and "AWS_ACCESS_KEY_ID" not in environ
    if explicit or not any(environ.get(name) for name in _ELSEWHERE):
        if "aws_access_key_id" in profile:
            config |= {ours: profile[key] for key, ours in _KEYS.items() if key in profile}
        elif any(key in profile for key in _BY_BOTO3):
            provider = _by_boto3(environ.get("AWS_PROFILE", "default"))
    return Settings(
        config=config, allow_http=endpoint.lower().startswith("http://"), provider=provider
    )


def _profile(environ: Mapping[str, str]) -> dict[str, str]:
    """Return the settings of the profile in both files; the credentials file wins."""
    name = environ.get("AWS_PROFILE", "default")
    home = Path(environ.get("HOME", "~")).expanduser() / ".aws"
    section = name if name == "default" else f"profile {name}"
    files = (
        (environ.get("AWS_CONFIG_FILE", home / "config"), section),
        (environ.get("AWS_SHARED_CREDENTIALS_FILE", home / "credentials"), name),
    )
    found: dict[str, str] = {}
    exists = False
    for path, wanted in files:
        parser = configparser.RawConfigParser()
        try:
            parser.read(path, encoding="utf-8")
        except (configparser.Error, UnicodeDecodeError) as err:
            raise ConfigError(f"cannot read AWS settings from {path}: {err}") from err
        if parser.has_section(wanted):
            exists = True
            found |= dict(parser.items(wanted))
    if "AWS_PROFILE" in environ and not exists:
        raise ConfigError(
            f"AWS_PROFILE names the profile {name!r}, which neither {files[0][0]} nor "
            f"{files[1][0]} has; correct the name, or unset AWS_PROFILE"
        )
    return found


def _by_boto3(profile: str) -> Any:
    try:
        import boto3
        from obstore.auth.boto3 import Boto3CredentialProvider
    except ImportError as err:
        raise ConfigError(
            f"the AWS profile {profile!r} gets its credentials from a role, single sign-on or a "
            "process, which needs boto3; install with: pip install boto3"
        ) from err
    return Boto3CredentialProvider(boto3.Session(profile_name=profile))
