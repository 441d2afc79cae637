"""Reading times. A leaf: stages that meet timestamps share it."""

from __future__ import annotations

from datetime import UTC, datetime


def parse_ms(timestamp: str | None) -> int | None:
    """Unix milliseconds of an ISO 8601 time; UTC where it names no zone; None when it is not one."""
    if not timestamp:
        return None
    try:
        moment = datetime.fromisoformat(timestamp)
        if moment.tzinfo is None:
            moment = moment.replace(tzinfo=UTC)
        return round(moment.timestamp() * 1000)
    except (ValueError, OverflowError):
        return None
