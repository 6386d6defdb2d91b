"""Stores of format 1, as the last version that knew no other left them in the middle of its work, go on."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import msgspec
import pytest

from airflow_provider.coordination.service import EpochService, Settings
from airflow_provider.domain.epoch import Attempt
from airflow_provider.domain.errors import Fenced
from airflow_provider.domain.identifiers import DomainName, JobName
from airflow_provider.domain.records import job_key
from airflow_provider.domain.registration import JobRecord
from airflow_provider.stores.factory import check_schema, upgrade_schema
from airflow_provider.stores.schema_status import Fit
from tests.contract.recorded_stores import STORES, loaded
from tests.contract.recorded_work import DOMAIN, begun, first, landed, rows, second, written

Recorded = tuple[Settings, Path]


@pytest.fixture(params=STORES)
def recorded(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Recorded:
    """A recorded store in a server of today, and the folder of its files."""
    server = None if request.param == "sqlite" else request.getfixturevalue(request.param)
    return loaded(request.param, server, tmp_path_factory.mktemp("recorded"))


@pytest.fixture(params=["as it is", "upgraded"])
def service(recorded: Recorded, request: pytest.FixtureRequest) -> Iterator[EpochService]:
    """This version on it, before ``airflow epochs db upgrade`` and behind it."""
    settings, _ = recorded
    if request.param == "upgraded":
        upgrade_schema(settings.store_url)
    with EpochService.open(settings) as service:
        yield service


def declared(service: EpochService, job: str) -> JobRecord:
    key = job_key(DomainName(DOMAIN), JobName(job))
    found: JobRecord = service.store.read(DomainName(DOMAIN), [key]).records[key].record
    return found


def test_it_is_upgraded_once(recorded: Recorded) -> None:
    """R36: the check says so before, and nothing is left to do behind it."""
    url = recorded[0].store_url
    before = check_schema(url)
    assert before is not None
    assert (before.fit, before.format) == (Fit.UPGRADABLE, 1)
    for _ in range(2):
        upgraded = upgrade_schema(url)
        assert upgraded is not None
        assert upgraded == check_schema(url)
        assert (upgraded.fit, upgraded.format) == (Fit.CURRENT, 2)


def attempt_of(folder: Path) -> Attempt:
    """Return the attempt that was written before the upgrade; fields have other names since."""
    plain = msgspec.json.decode((folder / "attempt.json").read_bytes())
    plain["sources"] = [{"source": bounds.pop("root"), **bounds} for bounds in plain.pop("roots")]
    return msgspec.convert(plain, Attempt, strict=False)


def test_open_attempts_are_published_or_superseded_and_the_next_epoch_commits(
    service: EpochService, recorded: Recorded
) -> None:
    """R7, R10, R36: an attempt that was handed over, one that had written nothing, and an older declaration."""
    _, folder = recorded
    assert (rows(service, "first"), rows(service, "second")) == ([1, 2, 30], [10, 20])
    service.publish(attempt_of(folder))
    assert rows(service, "first") == [1, 2, 4, 30]

    superseding = begun(service, second(7), 3, tries=2)
    assert (superseding.token, declared(service, "second").revision) == (2, 2)
    with pytest.raises(Fenced):
        service.heartbeat(replace(superseding, token=1))
    service.publish(written(service, superseding, 30))
    older = begun(service, second(), 4)
    service.publish(written(service, older, 40))
    record = declared(service, "second")
    assert (record.revision, record.inactive_after, len(record.earlier)) == (2, 7, 1)

    following = begun(service, first(), 5, sources=landed(folder, 5))
    service.publish(written(service, following, 5))
    assert (declared(service, "first").revision, declared(service, "first").earlier) == (1, ())
    again = begun(service, second(7), 5)
    service.publish(written(service, again, 50))
    assert (rows(service, "first"), rows(service, "second")) == ([1, 2, 4, 5, 30], [10, 20, 30, 40, 50])


def test_its_files_are_bound(service: EpochService, recorded: Recorded) -> None:
    """I11: an epoch that is begun again reads what was recorded, whatever lies there now."""
    _, folder = recorded
    before = landed(folder, 4)
    (folder / "landing" / "2024-01-04.csv").write_text("other rows\n")
    attempt = begun(service, first(), 4, tries=2, sources=landed(folder, 4))
    assert [source.same_as(before["landing"]) for source in attempt.sources] == [True]


def test_its_lease_is_renewed_and_read(service: EpochService, recorded: Recorded) -> None:
    """R15, R36: also when its tables have gone on."""
    _, folder = recorded
    (lease,) = service.leases.all(DOMAIN)
    service.publish(attempt_of(folder))
    service.retention.vacuum(DOMAIN)
    renewed = service.leases.renew(lease)
    assert renewed.cut.states == lease.cut.states
    assert rows(service, "first", renewed.cut) == [1, 2]
    assert rows(service, "second", renewed.cut) == [10, 20]
    service.leases.drop(renewed)
    assert service.leases.all(DOMAIN) == []
