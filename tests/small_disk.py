"""A file system that is nearly full or read-only, in a mount namespace of its own, and writes onto it.

Run as root of that namespace (`unshare -rm`). For every number of free pages, then of free inodes, from none to enough,
it makes a first bottle, writes one over an old one, archives an old one, or writes a named file. It prints one JSON list
a line: what ran short, how much was left, what was written, the error or "", what was wrong with what then stood.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

from crash_writer import NAMED, standing_of, whole_text, write_one

from bottlepipe.errors import WriteFailed

_PAGE = os.sysconf("SC_PAGE_SIZE")
# What is short, how many are left, and the number of the text: 3 has 2 MB and never fits, 4 has 3 kB.
_CASES = [
    *[("space", free, number) for free in range(4) for number in (3, 4)],
    *[("inodes", free, 4) for free in range(6)],
    ("right to write", 0, 4),
]
_WRITES = {"first": ("a", False), "replacing": ("a", False), "archiving": ("a", True), "a named file": (NAMED, False)}


def _fill(disk: Path, what: str, free: int) -> None:
    """Use up the disk, then give so many pages or inodes back."""
    filler = disk / "filler"
    filler.mkdir()
    with contextlib.suppress(OSError):
        if what == "space":
            with open(filler / "big", "wb", buffering=0) as big:
                while True:
                    big.write(bytes(_PAGE))
        for number in range(1000):
            (filler / str(number)).touch()
    if what == "space":
        os.truncate(filler / "big", (filler / "big").stat().st_size - free * _PAGE)
    for number in range(free if what == "inodes" else 0):
        (filler / str(number)).unlink()


def _remount(disk: Path, option: str) -> None:
    subprocess.run(["mount", "-o", f"remount,{option}", disk], check=True)


def _try(disk: Path, what: str, free: int, kind: str, number: int) -> tuple[str, str]:
    session, archives = _WRITES[kind]
    folder = disk / "bottles"
    folder.mkdir(mode=0o700)
    before = 0 if kind == "first" else 2
    if before:
        write_one(folder, session, before, archives)
    if what == "right to write":
        _remount(disk, "ro")
    else:
        _fill(disk, what, free)
    error = ""
    try:
        write_one(folder, session, number, archives)
    except WriteFailed as failed:
        error = f"{failed}; {failed.hint}"
    if what == "right to write":
        _remount(disk, "rw")
    stands = standing_of(folder, session)
    if stands != (before if error else number):
        return error, f"number {stands} stands"
    if stands and (folder / f"{session}.md").read_bytes() != whole_text(session, stands, archives):
        return error, "what stands is torn"
    left = sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())
    expected = [f"{session}.md"] * bool(stands) + [f"archive/{number}-a.md"] * (archives and not error)
    return error, "" if left == sorted(expected) else f"left: {left}"


def main() -> None:
    disk = Path(sys.argv[1])
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={64 * _PAGE},nr_inodes=40", "tmpfs", disk], check=True)
    for what, free, number in _CASES:
        for kind in _WRITES:
            print(json.dumps([what, free, kind, number, *_try(disk, what, free, kind, number)]))
            for path in disk.iterdir():
                shutil.rmtree(path)


if __name__ == "__main__":
    main()
