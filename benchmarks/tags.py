"""Texts that are built to make a tag scanner slow, and the scanner on them. Run as a worker, in a process of its own.

    python benchmarks/tags.py 100000 1000000 10000000 --rounds 5

Every text has a shown part and a hidden one, so that the answer can be checked. What must hold is that the time per byte
does not grow with the size.
"""

from __future__ import annotations

import argparse
import json
from typing import Any

from engines import peak_bytes, timed

SHOWN = "The words that stay. "


def make_text(kind: str, size: int) -> str:
    """A text of about `size` bytes of which only SHOWN may stay."""
    match kind:
        case "unclosed tags":
            unit = "<private>secret "
        case "half-open tags":
            unit = "<private "
        case "nested splices":
            # Each removal makes a new open tag out of what stood around it, down to the first.
            inner = "<private>secret</private>"
            deep = size // len("<privvate>secret</private>")
            return SHOWN + "<pri" * deep + inner + "vate>secret</private>" * deep
        case "splices in a row":
            unit = "<pri<private>secret</private>vate>secret</private>"
        case "open and close":
            unit = "<private><system-reminder>secret</private>"
        case _:
            raise ValueError(kind)
    return SHOWN + unit * (size // len(unit))


KINDS = ("unclosed tags", "half-open tags", "nested splices", "splices in a row", "open and close")


def main() -> None:
    from bottlepipe.tags import strip_tags

    parser = argparse.ArgumentParser(description="Strip hostile texts of growing size.")
    parser.add_argument("sizes", type=int, nargs="+")
    parser.add_argument("--rounds", type=int, default=3)
    choices = parser.parse_args()
    found: dict[str, dict[str, Any]] = {}
    for kind in KINDS:
        for size in choices.sizes:
            text = make_text(kind, size)
            about: dict[str, Any] = {"cpu": [], "wall": [], "size": len(text)}
            for _ in range(choices.rounds):
                stripped, cpu, wall = timed(lambda text=text: strip_tags(text))
                about["cpu"].append(cpu)
                about["wall"].append(wall)
                about["answer"] = {"is_right": int(stripped.text == SHOWN), "private_spans": stripped.private_spans}
            found[f"{kind} {size}"] = about
    print(json.dumps({"engines": found, "peak": peak_bytes()}))


if __name__ == "__main__":
    main()
