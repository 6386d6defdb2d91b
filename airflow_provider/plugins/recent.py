"""Cache of answers of the page and the catalog; few are computed at once, so that the API server stays free.

A large domain takes seconds to read, and every open page asks again each few seconds. So an answer is reused while the
domain's head has not moved, for a time that grows with its cost; and few answers are computed at once.
"""

from __future__ import annotations

import time
import uuid
from collections import OrderedDict
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from threading import BoundedSemaphore, Lock
from typing import Any

from airflow_provider.domain.errors import RetryableError

_AT_ONCE = 2
_TIMEOUT_S = 3.0
_ASKS_AGAIN = "wait: it asks again by itself; name a table or job, or a shorter range."
_KEPT = 32
_SHORTEST_S, _LONGEST_S, _TIMES = 2.0, 60.0, 10.0
"""Time that an answer is kept: ten times what it took to compute, within these bounds.

A limit is needed although the head has not moved, because the reports of an attempt do not move it.
"""


class PageBusy(RetryableError):
    """The limit of concurrent work is reached."""


@dataclass(frozen=True, slots=True)
class CachedAnswer:
    """An answer, the head that it was computed at, and the time until which it is kept.

    :ivar tag: unique for each computed answer. :ivar until: in seconds of the monotonic clock.
    """

    value: Any
    csn: int
    tag: str
    until: float


class Recent:
    """Cache of the answers of one process.

    :param at_once: number of answers that are computed at the same time.
    :param timeout_s: time in seconds for which a question waits for its turn. :param busy: next step of one that waits
        longer.
    """

    def __init__(
        self, *, at_once: int = _AT_ONCE, timeout_s: float = _TIMEOUT_S, busy: str = _ASKS_AGAIN
    ) -> None:
        self._busy = busy
        self._known: OrderedDict[Hashable, CachedAnswer] = OrderedDict()
        self._lock = Lock()
        self._turns = BoundedSemaphore(at_once)
        self._timeout_s = timeout_s

    def answer(self, question: Hashable, csn: int, work: Callable[[], Any]) -> CachedAnswer:
        """Return the result of *work* for *question*, or a recent result at the same head.

        :param csn: CSN of the domain's head.
        :raises PageBusy: the limit of concurrent work was reached for some seconds.
        """
        if (known := self._fresh(question, csn)) is not None:
            return known
        if not self._turns.acquire(timeout=self._timeout_s):
            raise PageBusy("The page is busy with other questions.", next_step=self._busy)
        try:
            # Another request may have computed the same answer while this one waited for its turn.
            if (known := self._fresh(question, csn)) is not None:
                return known
            started = time.monotonic()
            value = work()
            ended = time.monotonic()
            kept_s = min(max(_TIMES * (ended - started), _SHORTEST_S), _LONGEST_S)
            made = CachedAnswer(value, csn, uuid.uuid4().hex, ended + kept_s)
            with self._lock:
                self._known[question] = made
                self._known.move_to_end(question)
                while len(self._known) > _KEPT:
                    self._known.popitem(last=False)
            return made
        finally:
            self._turns.release()

    def _fresh(self, question: Hashable, csn: int) -> CachedAnswer | None:
        with self._lock:
            known = self._known.get(question)
        if known is None or known.csn != csn or known.until < time.monotonic():
            return None
        return known
