"""Cases: publishing replaces the slices that it names, and refuses a base that has moved."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from airflow_provider.domain.cut import Staged
from airflow_provider.domain.errors import ForeignCommit, InvalidInput, Unavailable
from airflow_provider.domain.identifiers import JobName
from airflow_provider.domain.interval import Interval
from airflow_provider.domain.topology import Table
from airflow_provider.stores.base import CatalogSwap, Exists, RequirementFailed
from airflow_provider.tables.errors import TableRecreated, TablesAhead
from airflow_provider.testing.table_cases.backend import (
    JOB,
    Publisher,
    TableBackend,
    TableCases,
    batch,
    day,
    expected,
)


class PublishingCases(TableCases):
    """Publications, races, and the output of attempts that never published."""

    def test_nothing_is_there_before_the_commit(self, publisher: Publisher, table: Table) -> None:
        """R4: staged and prepared output is in no state."""
        staged = publisher.stage(table, day(0), [batch([1])])
        assert publisher.rows(table, 0) == []
        publication = publisher.publication(table, (day(0), staged))
        prepared = publisher.format.prepare(publication)
        before = publisher.format.describe(table)
        assert before is not None
        assert before.version == 0
        assert before.pointer != prepared.ref.metadata
        if prepared.swap is not None:
            assert (prepared.swap.expected, prepared.swap.new) == (before.pointer, prepared.ref.metadata)
        publisher.commit((publication, prepared))
        after = publisher.format.describe(table)
        assert after is not None
        assert (after.version, after.pointer) == (prepared.ref.version, prepared.ref.metadata)
        assert publisher.rows(table, 0) == expected((0, [1]))

    def test_a_revision_replaces_its_epoch_only(self, publisher: Publisher, table: Table) -> None:
        """I1: of forty epochs the revised one has only its new rows, and the others keep theirs."""
        refs = [publisher.publish(table, day(number), [number]) for number in range(40)]
        revised = publisher.publish(table, day(7), [700, 701], replaces=True)
        others = [(number, [number]) for number in range(40) if number != 7]
        assert publisher.rows(table, 39, ref=revised) == expected(*others, (7, [700, 701]))
        assert publisher.rows(table, 39, ref=refs[-1]) == expected(*others, (7, [7]))

    def test_an_empty_revision_removes_the_rows(self, publisher: Publisher, table: Table) -> None:
        """R5: an empty slice is a slice, and an empty revision removes the rows."""
        publisher.publish(table, day(0), [])
        assert publisher.rows(table, 0) == []
        publisher.publish(table, day(0), [1, 2], replaces=True)
        publisher.publish(table, day(1), [3])
        filled = publisher.refs[table]
        publisher.publish(table, day(0), [], replaces=True)
        assert publisher.rows(table, 1) == expected((1, [3]))
        assert publisher.rows(table, 1, ref=filled) == expected((0, [1, 2]), (1, [3]))

    def test_several_epochs_come_at_once(self, publisher: Publisher, table: Table) -> None:
        publisher.publish(table, day(1), [1])
        adds = [
            (day(number), publisher.stage(table, day(number), [batch([number + 10])])) for number in range(3)
        ]
        publication = publisher.publication(table, *adds, removes=[day(1)])
        publisher.commit((publication, publisher.format.prepare(publication)))
        assert publisher.rows(table, 2) == expected((0, [10]), (1, [11]), (2, [12]))

    def test_two_tables_move_together_or_not_at_all(self, publisher: Publisher) -> None:
        """R2: the pointers of two tables move in one transaction."""
        tables = [publisher.table(name) for name in ("one", "two")]
        publications = [
            publisher.publication(table, (day(0), publisher.stage(table, day(0), [batch([1])])))
            for table in tables
        ]
        both = [(publication, publisher.format.prepare(publication)) for publication in publications]
        with pytest.raises(RequirementFailed):
            publisher.commit(both[0], publisher.spoiled(*both[1]))
        assert all(publisher.format.describe(table) == publisher.create(table) for table in tables)
        assert [info.version for info in map(publisher.create, tables)] == [0, 0]
        publisher.commit(*both)
        assert [publisher.rows(table, 0) for table in tables] == [expected((0, [1]))] * 2

    def test_of_two_publications_on_one_head_the_second_prepares_again(
        self, publisher: Publisher, table: Table
    ) -> None:
        """R11: the moved pointer refuses the second, which then prepares on the new head."""
        staged = [publisher.stage(table, day(number), [batch([number])]) for number in range(2)]
        publications = [publisher.publication(table, (day(number), staged[number])) for number in range(2)]
        prepared = [publisher.format.prepare(publication) for publication in publications]
        publisher.commit((publications[0], prepared[0]))
        with pytest.raises(RequirementFailed) as refused:
            publisher.commit((replace(publications[1], csn=publisher.head() + 1), prepared[1]))
        assert isinstance(refused.value.requirement, CatalogSwap if prepared[1].swap else Exists)
        with pytest.raises(TablesAhead):
            publisher.format.prepare(publications[1])
        again = publisher.publication(table, (day(1), staged[1]))
        publisher.commit((again, publisher.format.prepare(again)))
        assert publisher.rows(table, 1) == expected((0, [0]), (1, [1]))

    def test_preparing_twice_is_allowed(self, publisher: Publisher, table: Table) -> None:
        publication = publisher.publication(table, (day(0), publisher.stage(table, day(0), [batch([1])])))
        unused, used = publisher.format.prepare(publication), publisher.format.prepare(publication)
        assert unused.ref.metadata != used.ref.metadata
        publisher.commit((publication, used))
        publisher.format.published(publication, used)
        assert publisher.rows(table, 0) == expected((0, [1]))

    def test_a_head_that_nobody_published_is_foreign(self, publisher: Publisher, table: Table) -> None:
        """R17: a current version other than the base is reported as another program's."""
        ref = publisher.publish(table, day(0), [1])
        staged = publisher.stage(table, day(1), [batch([2])])
        publication = publisher.publication(table, (day(1), staged))
        with pytest.raises(ForeignCommit) as refused:
            publisher.format.prepare(replace(publication, base=replace(ref, version=ref.version + 1)))
        assert (refused.value.expected, refused.value.found) == (str(ref.version + 1), str(ref.version))

    def test_tables_ahead_of_a_restored_store_are_named(self, publisher: Publisher, table: Table) -> None:
        """R33: the table's own marks name a commit that the store does not know."""
        first = publisher.publish(table, day(0), [1])
        publisher.publish(table, day(1), [2])
        staged = publisher.stage(table, day(2), [batch([3])])
        restored = replace(
            publisher.publication(table, (day(2), staged)), csn=2, base=first, incarnation="restored"
        )
        with pytest.raises(TablesAhead) as refused:
            publisher.format.prepare(restored)
        assert refused.value.found_csn == 2

    def test_a_table_made_again_is_another(
        self, backend: TableBackend, publisher: Publisher, table: Table
    ) -> None:
        """R17: the uuid tells a table from another one of its name, with a base and without."""
        publisher.publish(table, day(0), [1])
        staged = publisher.stage(table, day(1), [batch([2])])
        backend.drop(table)
        publisher.create(table)
        with pytest.raises(TableRecreated):
            publisher.format.prepare(publisher.publication(table, (day(1), staged)))
        publisher.refs.pop(table)
        with pytest.raises(TableRecreated):
            publisher.format.prepare(publisher.publication(table, (day(1), staged)))

    def test_what_was_abandoned_is_reachable_by_nobody(self, publisher: Publisher, table: Table) -> None:
        """R4, R16: neither before nor after its deletion, which may be repeated."""
        abandoned = publisher.place(table, day(0))
        publisher.stage(table, day(0), [batch([1])], place=abandoned)
        publisher.publish(table, day(0), [2])
        assert publisher.rows(table, 0) == expected((0, [2]))
        assert not any(
            uri.startswith(abandoned.uri) for uri in publisher.format.files(publisher.state(table, 0))
        )
        publisher.format.roll_back(abandoned)
        publisher.format.roll_back(abandoned)
        assert publisher.rows(table, 0) == expected((0, [2]))

    def test_places_are_listed_by_what_their_names_say(self, publisher: Publisher, table: Table) -> None:
        """R16: a vacuum finds staged output, published or not, until it is deleted."""
        assert publisher.format.staged(table, JOB) == []
        publisher.publish(table, day(0), [1])
        place = publisher.place(table, day(1), revision=3)
        place = publisher.format.place(
            table,
            job=JOB,
            interval=day(1),
            revision=3,
            token=place.token,
            participant=2,
            participant_attempt=4,
        )
        publisher.stage(table, day(1), [batch([2])], place=place)
        published, staged = sorted(publisher.format.staged(table, JOB), key=lambda found: found.barrier)
        assert (published.barrier, published.revision, published.participant_attempt) == (day(0).end, 1, 0)
        assert (staged.start, staged.barrier) == (day(1).start, day(1).end)
        assert (staged.revision, staged.token) == (3, place.token)
        assert (staged.participant, staged.participant_attempt) == (2, 4)
        publisher.format.roll_back(place)
        assert publisher.format.staged(table, JOB) == [published]
        assert publisher.format.staged(table, JobName("successor")) == []

    def test_epochs_that_end_together_have_places_of_their_own(
        self, publisher: Publisher, table: Table
    ) -> None:
        """R7, R16: tokens are counted for each start, so that two calendars use one token twice.

        Places of the oldest names (``by_end``) lack the start, and so coincide.
        """
        whole, half = day(0), Interval(day(0).start + timedelta(hours=12), day(0).end)
        places = {
            (interval, by_end): publisher.format.place(
                table, job=JOB, interval=interval, revision=1, token=1, by_end=by_end
            )
            for interval in (whole, half)
            for by_end in (False, True)
        }
        assert places[whole, True].uri == places[half, True].uri
        for place in (places[whole, False], places[half, False], places[whole, True]):
            publisher.stage(table, place.interval, [batch([1])], place=place)
        found = publisher.format.staged(table, JOB)
        assert {place.start for place in found} == {whole.start, half.start, None}
        assert {place.barrier for place in found} == {whole.end}
        publisher.format.roll_back(places[half, True])
        publisher.format.roll_back(places[half, False])
        assert [place.start for place in publisher.format.staged(table, JOB)] == [whole.start]

    def test_missing_output_is_noticed_before_it_is_published(
        self, backend: TableBackend, publisher: Publisher, table: Table
    ) -> None:
        """I6: a missing data file or manifest is noticed, also beside files that no manifest names."""
        table_format, place = publisher.format, publisher.place(table, day(0))
        empty = publisher.stage(table, day(0))
        whole = publisher.stage(table, day(0), [batch([1])], [batch([2, 3])], place=place)
        table_format.verify(table, [empty, whole])
        info = publisher.create(table)
        list(table_format.task_writer(place, info)([batch([4])]))
        table_format.verify(table, [empty, whole])
        state = publisher.state(table, 0)
        files = table_format.files(replace(state, staged=(Staged(interval=day(0), committable=whole),)))
        backend.lose(files[0])
        with pytest.raises(Unavailable) as lost:
            table_format.verify(table, [empty, whole])
        assert lost.value.details["uri"] == files[0]
        again = publisher.stage(table, day(1), [batch([5])])
        backend.lose(again.parts[0].uri)
        with pytest.raises(Unavailable, match="is missing or has changed"):
            table_format.verify(table, [again])

    def test_roll_back_deletes_the_attempts_own_place_only(self, publisher: Publisher, table: Table) -> None:
        """R16: places whose names have a common prefix stay, and a place outside of the table is refused."""
        places = [publisher.place(table, day(0)) for _ in range(11)]
        staged = [
            publisher.stage(table, day(0), [batch([number])], place=place)
            for number, place in enumerate(places)
        ]
        publisher.format.roll_back(places[0])
        kept = [Staged(interval=day(0), committable=staged[10])]
        assert publisher.rows(table, 0, staged=kept) == expected((0, [10]))
        outside = replace(places[1], uri=places[1].uri + "../../")
        with pytest.raises(InvalidInput, match="place"):
            publisher.format.roll_back(outside)
        publisher.format.roll_back(publisher.place(table, day(3)))
