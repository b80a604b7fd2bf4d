"""Leaves the C extensions out where MOTHTRAP_PURE is set: `make wheel` builds such a wheel, too.

Everything else is in pyproject.toml.
"""

import os

from setuptools import Distribution, setup


class Pure(Distribution):
    """A distribution without extensions: its wheel fits every platform."""

    def parse_config_files(self, *args: object, **kwargs: object) -> None:
        """Read pyproject.toml, and forget the extensions that it names."""
        super().parse_config_files(*args, **kwargs)
        self.ext_modules = []


setup(distclass=Pure if os.environ.get("MOTHTRAP_PURE") else Distribution)
