from __future__ import annotations

collect_ignore = ["going_wrong.py"]
