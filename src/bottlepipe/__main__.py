"""`bottlepipe` and `python -m bottlepipe`. Answers --version by itself, so that it costs no import."""

from __future__ import annotations

import sys


def main() -> None:
    """Run the command line and exit with its code."""
    if sys.argv[1:] == ["--version"]:
        from importlib.metadata import version

        print(f"bottlepipe {version('bottlepipe')}")
        return
    from bottlepipe.cli import run

    sys.exit(run(sys.argv[1:]))


if __name__ == "__main__":
    main()
