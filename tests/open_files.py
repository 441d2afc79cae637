"""Which files this process holds open."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path


def open_files(folder: Path) -> list[str]:
    """Those below `folder`, where the system tells; none where it does not."""
    if not Path("/proc/self/fd").exists():
        return []
    links = []
    for descriptor in Path("/proc/self/fd").iterdir():
        with contextlib.suppress(FileNotFoundError):
            links.append(os.readlink(descriptor))
    return [link for link in links if link.startswith(str(folder))]
