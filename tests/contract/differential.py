"""The same random operations on a store and on the memory store: equal answers, equal states after each.

Versions are opaque and times are each store's own. So an operation names a version by the memory store's, and
:class:`Twin` knows which one the store under test gave at the same write; of times it compares which write they
are of, and that they never go back.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from random import Random
from typing import Any

from airflow_provider.domain.errors import EpochError
from airflow_provider.domain.identifiers import ChangeSetId, DomainName
from airflow_provider.domain.records import Key, Kind, Stamped
from airflow_provider.stores.base import (
    Absent,
    CatalogSwap,
    Delete,
    Exists,
    MetadataStore,
    Number,
    Put,
    RequirementFailed,
    SameStore,
    StoreCapability,
    Transaction,
)
from airflow_provider.testing.store_cases.samples import bare, sample

DOMAINS = (DomainName("one"), DomainName("zwei/übel%_"))
KINDS = (Kind.TABLE, Kind.EPOCH, Kind.EVENT)
PARTITIONS = ("", "a/b", "a")
ITEMS = ("1", "10", "2", "a", "a\x01", "é", "名:x")
TABLES = ("first", "second")
NEVER = 987_654_321
"""A version that no store gives."""


@dataclass(slots=True)
class Side:
    """One of the two stores, and what its stamps mean.

    :param written: by key, the version and the time of its last write. :param at: of the last write of all.
    """

    store: MetadataStore
    names: dict[tuple[Key, int], int] = field(default_factory=dict)
    versions: dict[tuple[Key, int], int] = field(default_factory=dict)
    written: dict[tuple[Key, int], datetime] = field(default_factory=dict)
    at: datetime | None = None
    incarnation: str = ""

    def __post_init__(self) -> None:
        self.incarnation = self.store.read(DOMAINS[0], []).head.incarnation

    def learn(self, key: Key, name: int, version: int, at: datetime) -> None:
        """Remember that the write called *name* gave *key* this version."""
        assert (key, version) not in self.names, f"{key} had the version {version} before"
        self.names[key, version] = name
        self.versions[key, name] = version
        self.written[key, version] = at

    def stamp(self, stamped: Stamped[Any]) -> tuple[Any, ...]:
        """A record as both stores must have it: the name of its write instead of version and time."""
        assert self.written[stamped.key, stamped.version] == stamped.at, (
            f"{stamped.key}: another time than its write's"
        )
        return stamped.key, stamped.record, self.names[stamped.key, stamped.version], stamped.csn

    def found(self, requirement: object, found: object) -> object:
        """What an error has found, in words that both have."""
        if isinstance(requirement, Exists | Absent):
            if isinstance(found, int):
                return self.names[requirement.key, found]
            return None
        return "incarnation" if isinstance(requirement, SameStore) else found


class Twin:
    """A store and its model, changed and read alike.

    :param rng: chooses; equal for all stores of a run.
    """

    def __init__(self, store: MetadataStore, model: MetadataStore, rng: Random) -> None:
        self.rng = rng
        self.sides = (Side(model), Side(store))
        self.writes = 0
        self.happened: dict[str, int] = {}
        self.swaps = all(StoreCapability.CATALOG_SWAP in side.store.capabilities for side in self.sides)
        self.pointers = {(domain, table): "v0" for domain in DOMAINS for table in TABLES}

    def step(self) -> None:
        """Do one random operation on both, compare what they answer, then everything that they hold."""
        operation: Callable[[DomainName], None] = self.rng.choices(
            (self.transact, self.read, self.scan, self.changes, self.domains), (12, 2, 4, 1, 1)
        )[0]
        domain = self.rng.choice(DOMAINS)
        operation(domain)
        self.compare(domain)

    def compare(self, *domains: DomainName) -> None:
        """Compare everything that *domains* hold."""
        for domain in domains:
            self.both(lambda side, at=domain: everything(side, at))

    def both(self, ask: Callable[[Side], Any]) -> Any:
        """Return the answer of both, which must be equal."""
        model, store = (self._answer(ask, side) for side in self.sides)
        assert store == model
        return model

    def _answer(self, ask: Callable[[Side], Any], side: Side) -> Any:
        try:
            return ask(side)
        except RequirementFailed as error:
            kind = type(error.requirement).__name__
            return "RequirementFailed", kind, side.found(error.requirement, error.found)
        except EpochError as error:
            return type(error).__name__, getattr(error, "field", None)

    # --- reading ---------------------------------------------------------------------------------------------

    def read(self, domain: DomainName) -> None:
        keys = [self.key(domain) for _ in range(self.rng.randrange(6))]

        def ask(side: Side) -> Any:
            reading = side.store.read(domain, keys)
            assert side.at is None or reading.now >= side.at, "the store's time went back"
            return reading.head.csn, {side.stamp(record) for record in reading.records.values()}

        self.both(ask)

    def scan(self, domain: DomainName) -> None:
        rng = self.rng
        kind, partition = rng.choice((*KINDS, Kind.COMMIT)), rng.choice(PARTITIONS)
        bounds = [rng.choice((None, *ITEMS, "00000000000000000002")) for _ in range(2)]
        limit, reverse = rng.choice((None, 1, 2, 100)), rng.random() < 0.5

        def ask(side: Side) -> Any:
            start, end = bounds
            found = side.store.scan(
                domain, kind, partition, start=start, end=end, limit=limit, reverse=reverse
            )
            return [side.stamp(stamped) for stamped in found]

        self.both(ask)

    def changes(self, domain: DomainName) -> None:
        after, limit = self.rng.randrange(-1, 8), self.rng.choice((1, 3, 1000))
        self.both(
            lambda side: [side.stamp(change) for change in side.store.changes(domain, after, limit=limit)]
        )

    def domains(self, _: DomainName) -> None:
        self.both(lambda side: side.store.domains())

    # --- changing --------------------------------------------------------------------------------------------

    def transact(self, domain: DomainName) -> None:
        """Apply a random transaction: sound or not, with requirements that hold and that do not."""
        rng = self.rng
        self.writes += 1
        keys = rng.sample([self.key(domain) for _ in range(12)], rng.randrange(5))
        updates = [self.update(key) for key in dict.fromkeys(keys)]
        if updates and rng.random() < 0.04:
            updates.append(
                rng.choice([updates[0], Put(Key(domain, Kind.COMMIT, "", "9"), bare(Kind.COMMIT))])
            )
        requires = [self.requirement(domain, keys) for _ in range(rng.choice((0, 0, 1, 1, 2, 3)))]
        drawn = self.swap(domain)  # always, so that all stores of a run get the same operations
        swaps = drawn if self.swaps else []
        number, decided_in = self.number(domain), self.decided_in()
        name = self.writes

        def ask(side: Side) -> Any:
            own = Transaction(
                domain=domain,
                store=self.store_of(side, decided_in),
                requires=tuple(self.of(side, requirement) for requirement in requires),
                updates=(*updates, *swaps),
                number=number,
            )
            receipt = side.store.transact(own)
            assert side.at is None or receipt.at >= side.at, "the store's time went back"
            side.at = receipt.at
            for key, version in receipt.versions.items():
                side.learn(key, name, version, receipt.at)
            if receipt.csn is not None:
                (commit,) = side.store.changes(domain, receipt.csn - 1, limit=1)
                side.learn(commit.key, name, commit.version, receipt.at)
            return receipt.csn, set(receipt.versions)

        answer = self.both(ask)
        applied = not isinstance(answer[0], str)
        if applied:
            self.pointers.update({(moved.namespace, moved.table): moved.new for moved in swaps})
        self.count("applied" if applied else " ".join(map(str, answer[:2])))

    def update(self, key: Key) -> Put | Delete:
        """Write a record that says which write made it, or remove one."""
        if self.rng.random() < 0.3:
            self.count("delete")
            return Delete(key)
        return Put(key, self.rng.choice((sample, bare))(key.kind))

    def requirement(self, domain: DomainName, keys: Sequence[Key]) -> Exists | Absent:
        """Require something of what is changed, or of another key: mostly what holds."""
        key = self.rng.choice(keys) if keys and self.rng.random() < 0.6 else self.key(domain)
        model = self.sides[0]
        now = model.store.read(domain, [key]).get(key)
        if self.rng.random() < 0.7:
            return Absent(key) if now is None else Exists(key, model.names[key, now.version])
        written = sorted(at for at in model.versions if at[0].domain == domain and at[0].kind in KINDS)
        if not written or self.rng.random() < 0.2:
            return Exists(key, NEVER)
        key, name = self.rng.choice(written)
        return self.rng.choice((Absent(key), Exists(key, name)))

    def of(self, side: Side, requirement: Exists | Absent) -> Exists | Absent:
        """The requirement with the store's own version."""
        if isinstance(requirement, Absent) or requirement.version == NEVER:
            return requirement
        return Exists(requirement.key, side.versions[requirement.key, requirement.version])

    def number(self, domain: DomainName) -> Number | None:
        """Take a number or not, whichever or an expected one."""
        rng = self.rng
        if rng.random() < 0.45:
            return None
        head = self.sides[0].store.read(domain, []).head.csn
        commit = replace(sample(Kind.COMMIT), change_set=ChangeSetId(f"change {self.writes}"))
        expected = rng.choices((None, head + 1, head, head + 2), (4, 4, 1, 1))[0]
        return Number(commit, expected)

    def decided_in(self) -> str | None:
        """Say in which store it was decided, or not: mostly in this one."""
        return self.rng.choices((None, "own", "another"), (6, 3, 1))[0]

    def store_of(self, side: Side, decided_in: str | None) -> SameStore | None:
        return (
            None if decided_in is None else SameStore(side.incarnation if decided_in == "own" else decided_in)
        )

    def swap(self, domain: DomainName) -> list[CatalogSwap]:
        """Move pointers from where they are, now and then from elsewhere."""
        tables = self.rng.sample(TABLES, self.rng.choice((0, 0, 1, 2)))
        return [
            CatalogSwap(
                domain,
                table,
                self.pointers[domain, table] if self.rng.random() < 0.9 else "elsewhere",
                f"v{self.writes}",
            )
            for table in tables
        ]

    def key(self, domain: DomainName) -> Key:
        rng = self.rng
        return Key(domain, rng.choice(KINDS), rng.choice(PARTITIONS), rng.choice(ITEMS))

    def count(self, what: str) -> None:
        self.happened[what] = self.happened.get(what, 0) + 1


def everything(side: Side, domain: DomainName) -> object:
    """All that *domain* holds."""
    head = side.store.read(domain, []).head
    assert head.incarnation == side.incarnation
    records = [
        side.stamp(stamped)
        for kind in KINDS
        for partition in PARTITIONS
        for stamped in side.store.scan(domain, kind, partition)
    ]
    commits = [side.stamp(change) for change in side.store.changes(domain, 0)]
    assert [commit[3] for commit in commits] == list(range(1, head.csn + 1))
    return head.csn, records, commits
