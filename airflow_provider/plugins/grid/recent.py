"""Answers that the page gives again, and how many it works on at once: what keeps it from holding the API server up.

A large domain takes seconds to look over, and every open page asks again each few seconds. So an answer is given again
while the domain's head stands where it stood, for a time that grows with what it cost; and few are worked on at once.
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
_PATIENCE_S = 3.0
_KEPT = 32
_SHORTEST_S, _LONGEST_S, _TIMES = 2.0, 60.0, 10.0
"""An attempt moves no head: so an answer is kept no longer than ten times what it took, within these."""


class PageBusy(RetryableError):
    """Too many questions are being worked on."""


@dataclass(frozen=True, slots=True)
class Answer:
    """An answer and what tells it apart. :ivar tag: another one for each that was worked out."""

    value: Any
    csn: int
    tag: str
    until: float


class Recent:
    """The answers of one process."""

    def __init__(self, *, at_once: int = _AT_ONCE, patience_s: float = _PATIENCE_S) -> None:
        self._known: OrderedDict[Hashable, Answer] = OrderedDict()
        self._lock = Lock()
        self._turns = BoundedSemaphore(at_once)
        self._patience_s = patience_s

    def answer(self, question: Hashable, csn: int, work: Callable[[], Any]) -> Answer:
        """Return what *work* answers to *question*, or has answered lately at the same head.

        :param csn: where the domain's head stands.
        :raises PageBusy: others are being worked on, and were for some seconds.
        """
        if (known := self._fresh(question, csn)) is not None:
            return known
        if not self._turns.acquire(timeout=self._patience_s):
            raise PageBusy(
                "The page is busy with other questions.",
                next_step="wait: it asks again by itself; name a table or job, or a shorter range.",
            )
        try:
            if (known := self._fresh(question, csn)) is not None:
                return known
            started = time.monotonic()
            value = work()
            ended = time.monotonic()
            kept_s = min(max(_TIMES * (ended - started), _SHORTEST_S), _LONGEST_S)
            made = Answer(value, csn, uuid.uuid4().hex, ended + kept_s)
            with self._lock:
                self._known[question] = made
                self._known.move_to_end(question)
                while len(self._known) > _KEPT:
                    self._known.popitem(last=False)
            return made
        finally:
            self._turns.release()

    def _fresh(self, question: Hashable, csn: int) -> Answer | None:
        with self._lock:
            known = self._known.get(question)
        if known is None or known.csn != csn or known.until < time.monotonic():
            return None
        return known
