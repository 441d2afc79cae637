"""`bottlepipe` and `python -m bottlepipe`. Answers --version by itself, so that it costs no import."""

from __future__ import annotations

import sys


def main() -> None:
    """Run the command line and exit with its code."""
    if sys.argv[1:] == ["--version"]:
        from bottlepipe import __version__

        try:
            sys.stdout.write(f"bottlepipe {__version__}\n")
            sys.stdout.flush()
        except (OSError, AttributeError):
            # Closed, full, or nobody reads it any more: the command line knows what to say about that.
            pass
        else:
            return
    try:
        from bottlepipe.cli import run

        code = run(sys.argv[1:])
    except KeyboardInterrupt:
        # Before the command line stands there is nobody else to catch it.
        print("bottlepipe: interrupted", file=sys.stderr)
        code = 130
    sys.exit(code)


if __name__ == "__main__":
    main()
