"""Texts that are built to make a tag scanner slow, and the scanner on them. Run as a worker, in a process of its own.

    python benchmarks/tags.py 100000 10000000 --floor 1000000 --rounds 5

Every text has a shown part and a hidden one, so that the answer can be checked. What must hold is that the time per byte
does not grow with the size: the floor, directly before each text, is one of the same kind and another size.
"""

from __future__ import annotations

import argparse
import json
from functools import partial
from typing import Any

from engines import Answer, Work, measure_in_turns, peak_bytes

from bottlepipe.tags import Stripped, strip_tags

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
    parser = argparse.ArgumentParser(description="Strip hostile texts of growing size.")
    parser.add_argument("sizes", type=int, nargs="+")
    parser.add_argument("--floor", type=int, required=True, help="size of the text that each is compared with")
    parser.add_argument("--rounds", type=int, default=3)
    choices = parser.parse_args()

    def answer(stripped: Stripped) -> Answer:
        return {"is_right": int(stripped.text == SHOWN), "private_spans": stripped.private_spans}

    found: dict[str, dict[str, Any]] = {}
    for kind in KINDS:
        texts = {size: make_text(kind, size) for size in choices.sizes}
        works: dict[str, Work] = {f"{kind} {size}": (partial(strip_tags, text), answer) for size, text in texts.items()}
        found |= measure_in_turns(works, choices.rounds, partial(strip_tags, make_text(kind, choices.floor)))
    print(json.dumps({"works": found, "peak": peak_bytes()}))


if __name__ == "__main__":
    main()
