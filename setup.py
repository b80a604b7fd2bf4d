"""Chooses how the C extensions are built; everything else is in pyproject.toml.

With MOTHTRAP_PURE, they are omitted; `make wheel` also builds such a wheel. From Python 3.12 on,
they use the limited API, so that one wheel serves all later versions, except free-threaded builds.
"""

import os
import sys
import sysconfig

from setuptools import Distribution, setup

LIMITED = sys.version_info >= (3, 12) and not sysconfig.get_config_var("Py_GIL_DISABLED")


class Pure(Distribution):
    """A distribution without extensions, whose wheel works on every platform."""

    def parse_config_files(self, *args: object, **kwargs: object) -> None:
        """Read pyproject.toml without its extensions."""
        super().parse_config_files(*args, **kwargs)
        self.ext_modules = []


class Limited(Distribution):
    """A distribution whose extensions use the limited API of Python 3.12."""

    def parse_config_files(self, *args: object, **kwargs: object) -> None:
        """Read pyproject.toml, and set the API of its extensions."""
        super().parse_config_files(*args, **kwargs)
        for extension in self.ext_modules or ():
            extension.py_limited_api = True
            extension.define_macros.append(("Py_LIMITED_API", "0x030C0000"))
        self.get_option_dict("bdist_wheel")["py_limited_api"] = ("setup.py", "cp312")


chosen = Pure if os.environ.get("MOTHTRAP_PURE") else Limited if LIMITED else Distribution
setup(distclass=chosen)
