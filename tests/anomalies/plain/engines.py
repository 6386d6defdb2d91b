"""CAT1 and CAT2 without this package."""

from __future__ import annotations

from tests.anomalies.plain.cascade import Cascade, derived, observed
from tests.anomalies.verdicts import Observed


def cat1(cascade: Cascade) -> Observed:
    """Each epoch of D replaces its whole state. After 1 and 2, 1 is run again; R must see that of epoch 2 alone."""
    for epoch, value in ((1, 1), (2, 2), (1, 7)):
        cascade.tables.overwrite("d", cascade.tables.frame([(epoch, value, "")]))
    (d,) = cascade.see("d")
    return observed(d == {2: [2]}, d=d)


def cat2(cascade: Cascade) -> Observed:
    """R loads D, epoch 2 of D and E is committed, R loads E; E must be what J2 makes of this D."""
    cascade.run(1, [1])
    (d,) = cascade.see("d")
    cascade.run(2, [2])
    (e,) = cascade.see("e")
    return observed(derived(d, e), d=d, e=e)
