"""Settings without effect are said once in every form of a run."""

from __future__ import annotations

