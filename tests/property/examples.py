"""Numbers of examples that the stateful properties try."""

from __future__ import annotations

from hypothesis import settings

_SHARE_OF_QUICK = 4


def examples(number: int) -> int:
    """Return *number*, or a quarter of it in `make test-quick`."""
    quick = settings.get_current_profile_name() == "quick"
    return max(1, number // _SHARE_OF_QUICK) if quick else number
