"""Many at once: threads that publish into one domain lose nothing and leave no gap."""

from __future__ import annotations

from airflow_provider.domain.epoch import AlreadyCommitted, Attempt, Published
from airflow_provider.domain.errors import EpochBusy, Fenced, NotReady
from airflow_provider.domain.identifiers import TableName
from airflow_provider.domain.topology import Job
from airflow_provider.testing.arrow_attempts import write_rows
from tests.contract.coordination_world import DOMAIN, World, barrier, day, owner, rows, side_by_side

THREADS = 8


def run_all(world: World, job: Job, numbers: list[int], seed: int) -> list[Published]:
    """Compute some epochs of *job* one after the other, as a worker process does."""
    own = world.worker(seed=seed)
    found = []
    for number in numbers:
        attempt = own.begin(job, day(number), owner())
        assert isinstance(attempt, Attempt)
        write_rows(own, attempt, job.outputs[0].name, rows([number]))
        own.heartbeat(attempt)
        found.append(own.publish(attempt))
    return found


def check_commits(world: World, answers: list[object], count: int) -> None:
    """Each answer's CSN is its commit's, all of them differ, and there is no gap (I2)."""
    published = [done for answer in answers for done in answer if isinstance(answer, list)]  # type: ignore[attr-defined]
    assert len(published) == count, answers
    commits = {commit.csn: commit.record.change_set for commit in world.commits()}
    assert {done.csn: done.change_set for done in published} == commits


def test_eight_jobs_publish_side_by_side(world: World) -> None:
    """R3: eight threads publish three epochs of eight jobs each into one domain."""
    jobs = [world.job(f"t{number}") for number in range(THREADS)]
    numbers = [1, 2, 3]
    answers = side_by_side(
        *(lambda job=job, seed=seed: run_all(world, job, numbers, seed) for seed, job in enumerate(jobs))
    )
    check_commits(world, answers, THREADS * len(numbers))
    expected = [(number, number) for number in numbers]
    assert world.rows(*(job.name for job in jobs)) == {job.name: expected for job in jobs}


def test_parallel_epochs_of_one_job_publish_at_once(table_world: World) -> None:
    """R11, R12: threads publish different epochs of one table, each rebased on the others."""
    world = table_world
    job = world.job("d")
    world.coordinator.register(job)
    threads = 4 if world.table_format == "iceberg" else THREADS
    answers = side_by_side(
        *(lambda n=number: run_all(world, job, [n], n) for number in range(1, threads + 1))
    )
    check_commits(world, answers, threads)
    assert world.rows("d") == {"d": [(number, number) for number in range(1, threads + 1)]}
    assert world.cut("d").barrier == barrier(threads)


def test_one_of_many_simultaneous_begins_gets_the_epoch(world: World) -> None:
    """R10: eight runs ask for one epoch; one holds it, the others are told who."""
    job = world.job("d")
    world.coordinator.register(job)
    workers = [world.worker(seed=seed) for seed in range(THREADS)]
    found = side_by_side(
        *(lambda n=n: workers[n].begin(job, day(1), owner(f"run{n}")) for n in range(THREADS))
    )
    won = [answer for answer in found if isinstance(answer, Attempt)]
    busy = [answer for answer in found if isinstance(answer, EpochBusy)]
    assert (len(won), len(busy)) == (1, THREADS - 1), found
    assert {error.details["holder"].run_id for error in busy} == {won[0].owner.run_id}
    world.write(won[0])
    world.coordinator.publish(won[0])


def test_of_many_tries_of_one_run_at_once_the_newest_publishes(world: World) -> None:
    """R10: eight tries of one run begin, write and publish at once: one commit, by the only one that may."""
    job = world.job("d")
    world.coordinator.register(job)

    def work(number: int) -> object:
        own = world.worker(seed=number)
        attempt = own.begin(job, day(1), owner(try_number=number))
        if isinstance(attempt, AlreadyCommitted):
            return attempt
        write_rows(own, attempt, "d", rows([number]))
        return own.publish(attempt)

    found = side_by_side(*(lambda n=n: work(n) for n in range(1, THREADS + 1)))
    assert all(isinstance(answer, Published | AlreadyCommitted | Fenced) for answer in found), found
    published = [answer for answer in found if isinstance(answer, Published)]
    assert len(published) == 1
    assert len(world.commits()) == 1
    assert len(world.rows("d")["d"]) == 1


def test_one_attempt_published_by_many_at_once_commits_once(world: World) -> None:
    """R15: the same publish sent by eight threads: one commit, one answer."""
    attempt = world.begin(world.job("d"), day(1))
    world.write(attempt)
    workers = [world.worker(seed=seed) for seed in range(THREADS)]
    found = side_by_side(*(lambda n=n: workers[n].publish(attempt) for n in range(THREADS)))
    assert all(answer == found[0] for answer in found), found
    assert isinstance(found[0], Published)
    assert len(world.commits()) == 1


def test_readers_see_whole_commits_while_writers_go_on(world: World) -> None:
    """R3, R18: a reader cuts D and E while both move; each cut has both at one barrier."""
    d, e = world.job("d"), world.job("e", inputs=[world.table("d")])
    numbers = list(range(1, 9))
    for job in (d, e):
        world.coordinator.register(job)
    done: list[bool] = []

    def write() -> list[Published]:
        found = []
        for number in numbers:
            found += run_all(world, d, [number], 1)
            found += run_all(world, e, [number], 2)
        done.append(True)
        return found

    def read() -> int:
        seen = 0
        while not done:
            try:
                cut = world.cut("d", "e")
            except NotReady:
                continue
            assert {state.barrier for state in cut.states.values()} == {cut.barrier}
            found = world.rows_of(cut)
            assert found["d"] == found["e"], cut
            assert found["d"] == [(n, n) for n in range(1, len(found["d"]) + 1)]
            assert len(found["d"]) >= seen
            seen = len(found["d"])
        return seen

    answers = side_by_side(write, read)
    check_commits(world, answers[:1], 2 * len(numbers))
    assert isinstance(answers[1], int), answers[1]
    assert world.coordinator.epoch(DOMAIN, e.name, day(8)) is not None
    assert TableName("e") in world.cut("e").states
