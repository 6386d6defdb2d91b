"""Wrong rules as data: one small change each to the domain or the coordination, with the rule that it breaks."""

from __future__ import annotations

from tests.mutants.mutant import ATTEMPTS, REWRITES
from tests.mutants.mutant import Mutant as Mutant  # noqa: PLC0414 - with the planted ones
from tests.mutants.of_publishing import OF_PUBLISHING
from tests.mutants.roots import PLANTED_IN_ROOTS
from tests.mutants.runs import PLANTED_IN_RUNS
from tests.mutants.servers import PLANTED_IN_SERVERS
from tests.mutants.stores import PLANTED_IN_STORES
from tests.mutants.upkeep import PLANTED_IN_UPKEEP

CALENDARS = "tests/contract/test_coordination_calendars.py"
CHECKS = "tests/contract/test_coordination_checks.py"
CRASHES = "tests/contract/test_coordination_crashes.py"
DROPPED = "tests/contract/test_coordination_dropped.py"
ENGINES = "tests/contract/test_coordination_engines.py"
FACES = "tests/contract/test_coordination_faces.py"
FORMATS = "tests/contract/test_table_contract.py"
DECISIONS = "tests/unit/test_decisions.py"
DECLARING = "tests/contract/test_coordination_declaring.py"
FILLING = "tests/contract/test_coordination_filling.py"
LAPSING = "tests/contract/test_coordination_lapsing.py"
ORIGINS = "tests/contract/test_coordination_origins.py"
PARTICIPANTS = "tests/contract/test_coordination_participants.py"
READING = "tests/contract/test_coordination_reading.py"
RETENTION = "tests/contract/test_coordination_retention.py"
RETIRING = "tests/contract/test_coordination_retiring.py"
SKIPPING = "tests/contract/test_coordination_skipping.py"


BEGINNING = "coordination/beginning.py"
PUBLISHING = "coordination/publishing.py"


PLANTED = (
    Mutant(
        name="a report is written without a look at the token",
        rule="R10",
        file="coordination/reporting.py",
        old="requires=(Exists(fence_of(attempt), attempt.fence), Absent(key), *without),",
        new="requires=(Absent(key), *without),",
    ),
    Mutant(
        name="an earlier try of a participant reports as if it were the newest",
        rule="R10",
        file="coordination/joining.py",
        old="if attempt.subtoken else ()",
        new="if not attempt.subtoken else ()",
        tests=(PARTICIPANTS,),
    ),
    Mutant(
        name="what an earlier try of a participant has WRITTEN counts, too",
        rule="R10",
        file="domain/epoch.py",
        old="if one.token != token or one.subtoken != newest.get(one.participant, 0):",
        new="if one.token != token:",
        tests=(PARTICIPANTS,),
    ),
    Mutant(
        name="publish checks the token before its transaction, not in it",
        rule="R10",
        file=PUBLISHING,
        old="for one in (epoch, *held)}",
        new="for one in held}",
    ),
    Mutant(
        name="publish does not ask whether its inputs were computed again",
        rule="R13",
        file="coordination/validating.py",
        old="broken = invalidated(inputs, fences)",
        new="broken = invalidated(inputs[:0], fences)",
    ),
    Mutant(
        name="publish looks at the newest rewrite of an input only",
        rule="R13",
        file="domain/publishing.py",
        old="rewrites = list(record.earlier)",
        new="rewrites = list(record.earlier[:0])",
        tests=(DECISIONS, REWRITES),
    ),
    Mutant(
        name="the watermark runs over a gap",
        rule="R12",
        file="domain/watermark.py",
        old="if island.start <= self.origin < island.end:\n                return island.end",
        new="if island.start <= self.origin < island.end:\n                return self.islands[-1].end",
    ),
    Mutant(
        name="output is adopted although its code did not come to its end",
        rule="R16",
        file=BEGINNING,
        old="whole = set(output) == set(sinks) and completed(log, before.output_token)",
        new="whole = set(output) == set(sinks)",
    ),
    Mutant(
        name="an abort after the attempt's own commit deletes what it published",
        rule="R15",
        file="coordination/ending.py",
        old="return newest is not None and not newest.vetoed",
        new="return newest is None or not newest.vetoed",
        tests=(ATTEMPTS, CRASHES),
    ),
    Mutant(
        name="a publish that is tried again takes the newest token for its own",
        rule="R10",
        file=PUBLISHING,
        old="if epoch.version != attempt.fence or record is None or record.token != attempt.token:",
        new="if record is None:",
    ),
    Mutant(
        name="a new attempt has the token of the one before it",
        rule="R10",
        file=BEGINNING,
        old="token=(epoch.token if epoch else 0) + 1,",
        new="token=epoch.token if epoch else 1,",
    ),
    Mutant(
        name="a reader gets a table as it is now instead of as it was at the head that it read",
        rule="R3",
        file="domain/cut.py",
        old="if (stamped.csn or 0) <= csn:",
        new="if (stamped.csn or 0) >= 0:",
        tests=(DECISIONS,),
    ),
    Mutant(
        name="a rewrite leaves no mark",
        rule="R13",
        file="domain/publishing.py",
        old="return replace(record, latest=interval, earlier=_bounded(earlier, defaults.rewrites_remembered))",
        new="return record",
    ),
    Mutant(
        name="a re-run has the revision that is committed",
        rule="R15",
        file="domain/beginning.py",
        old="return 1 if epoch is None or epoch.committed is None else epoch.committed.revision + 1",
        new="return 1 if epoch is None or epoch.committed is None else epoch.committed.revision",
    ),
    Mutant(
        name="the first of two sinks is published, and that was it",
        rule="R2",
        file=PUBLISHING,
        old="for sink, (_, one) in zip(sinks, prepared, strict=True):\n            moved",
        new="for sink, (_, one) in zip(sinks[:1], prepared, strict=False):\n            moved",
    ),
    Mutant(
        name="what a retry adopts is deleted with what it does not",
        rule="R16",
        file="coordination/undoing.py",
        old="return () if adopts == output.token else (output,)",
        new="return (output,)",
    ),
    Mutant(
        name="a heartbeat writes nothing",
        rule="R23",
        file="coordination/renewing.py",
        old="updates=(Put(key, lock.record),),",
        new="updates=(),",
    ),
    Mutant(
        name="a lock has ended before its time",
        rule="R23",
        file="domain/epoch.py",
        old="return stamped_at + ttl <= now",
        new="return stamped_at <= now",
    ),
    Mutant(
        name="a revision publishes although committed epochs have read what it replaces",
        rule="R18",
        file="coordination/dependents.py",
        old="refuse_dependents(store, domain, tables, interval, defaults)",
        new="del interval",
    ),
    Mutant(
        name="a commit takes another number than the one that its tables carry",
        rule="R33",
        file=PUBLISHING,
        old="number = Number(commit, expected=reading.head.csn + 1)",
        new="number = Number(commit, expected=None)",
    ),
    Mutant(
        name="what a check has refused is published all the same",
        rule="R14",
        file="coordination/checking.py",
        old="        if findings:\n",
        new="        if findings and not attempt.checks:\n",
        tests=(CHECKS,),
    ),
    Mutant(
        name="an abort deletes what a check wants to be looked at",
        rule="R14",
        file="coordination/ending.py",
        old="return newest is not None and not newest.vetoed",
        new="return newest is not None",
        tests=(CHECKS,),
    ),
    Mutant(
        name="a full table is empty at a barrier that is skipped",
        rule="R5",
        file="coordination/skipping.py",
        old="if state.ref is None:",
        new="if state.ref is not None:",
        tests=(SKIPPING,),
    ),
    Mutant(
        name="an attempt that began before its job was retired publishes after it",
        rule="R7",
        file="domain/registration.py",
        old="    if table.ended:\n",
        new="    if table.ended and not name:\n",
        tests=(RETIRING,),
    ),
    Mutant(
        name="a job that works is retired under it",
        rule="R7",
        file="coordination/retiring.py",
        old="if lock.record.ended or expired(lock.at, lock.record.ttl, now):",
        new="if lock:",
        tests=(RETIRING,),
    ),
    Mutant(
        name="a cadence changes under epochs that are computed",
        rule="R7",
        file="domain/registration.py",
        old="if since is not None and last is not None and last.end > since:",
        new="if since is not None and last is not None and last.end < since:",
        tests=(CALENDARS,),
    ),
    Mutant(
        name="a lapsed job is waited for",
        rule="R9",
        file="coordination/resolving.py",
        old="if one[0].job not in lapsed and not one[0].ended",
        new="if not one[0].ended",
        tests=(LAPSING,),
    ),
    Mutant(
        name="only readers whose epoch began within it keep a revision from publishing",
        rule="R18",
        file="coordination/dependents.py",
        old="start=time_key(job.cadence.last_before(interval.start))",
        new="start=time_key(interval.start)",
    ),
    Mutant(
        name="what a table was before an open epoch is nobody's",
        rule="R24",
        file="coordination/claims.py",
        old="            yield from epoch.attempt.baseline\n",
        new="",
        tests=(RETENTION,),
    ),
    Mutant(
        name="a job that builds on its past is taken to forget what it has not read",
        rule="R18",
        file="domain/outdated.py",
        old="end = None  # a job that builds on its own past hands them on from epoch to epoch",
        new="end = outdated.end",
        tests=(REWRITES,),
    ),
    Mutant(
        name="a label names what its first and its last rows do not know only",
        rule="R18",
        file="coordination/outdated.py",
        old="if unknown < newest:",
        new="if unknown > newest:",
        tests=(REWRITES,),
    ),
    Mutant(
        name="rows that stand on an earlier state of an input carry no label",
        rule="R18",
        file="domain/outdated.py",
        old="if touched and read.csn < rewrite.csn:",
        new="if touched and read.csn > rewrite.csn:",
        tests=(REWRITES,),
    ),
    Mutant(
        name="a session forgets the commits of tables that it does not read now",
        rule="R20",
        file="domain/session.py",
        old="if csn < self.csn or barrier < seen.barrier:",
        new="if csn < seen.csn or barrier < seen.barrier:",
        tests=("tests/contract/test_coordination_reading.py",),
    ),
    Mutant(
        name="an epoch begins although another program dropped its table",
        rule="R17",
        file=BEGINNING,
        old="        refuse_lost(self.coordinator.formats, reading, unseen)\n",
        new="",
        tests=(DROPPED,),
    ),
    Mutant(
        name="a pointer that names anything is taken for that of the last commit",
        rule="R17",
        file="coordination/recovery.py",
        old="reading.pointers.get(table.name) == ref.metadata",
        new="table.name in reading.pointers",
        tests=(DROPPED,),
    ),
    Mutant(
        name="a table with commits is made anew",
        rule="R17",
        file="coordination/altering.py",
        old="info = same_table(table, record.ref, info)",
        new="if info is None:\n        return info",
        tests=(DROPPED,),
    ),
    Mutant(
        name="engines without cuts see every state of a full table",
        rule="R17",
        file="domain/version.py",
        old="return Shown(record.cadence.last_before(until) if full else progress.origin, until)",
        new="return Shown(progress.origin, until)",
        tests=(ENGINES,),
    ),
    Mutant(
        name="engines without cuts see what the table had before the commit",
        rule="R17",
        file=PUBLISHING,
        old="shows=shown(before, before.progress.adding(attempt.interval), self.coordinator.store.format),",
        new="shows=shown(before, before.progress, self.coordinator.store.format),",
        tests=(ENGINES,),
    ),
    Mutant(
        name="a compaction of what is shown takes the other slices along",
        rule="R17",
        file="tables/iceberg/publishing.py",
        old="return [*(one for one in lists(base.location) if one.manifest_path not in shown), *pointed]",
        new="return pointed",
        tests=(FORMATS,),
    ),
    Mutant(
        name="an engine is sent to a snapshot that lacks the state",
        rule="R22",
        file="coordination/queries.py",
        old="if not cuts.formats[ICEBERG].is_shown(state):",
        new="if not state.ref:",
        tests=(FACES,),
    ),
    Mutant(
        name="a table keeps its origin when its job declares an earlier one",
        rule="R7",
        file="domain/origins.py",
        old="    return progress if former is not None and begins > former else progress.declared_at(origin)",
        new="    return progress",
        tests=(ORIGINS,),
    ),
    Mutant(
        name='an origin moves back over what was read as "nothing before"',
        rule="R7",
        file="domain/origins.py",
        old="    return Interval(new, old) if old is not None and new is not None and new < old else None",
        new="    return Interval(new, old) if old is None and new is not None else None",
        tests=(
            ORIGINS,
            REWRITES,
        ),
    ),
    Mutant(
        name="an origin that nothing came of stays where it is",
        rule="R7",
        file="domain/origins.py",
        old="    if not any(table.progress.islands for table in tables) and not attempts:\n        return\n",
        new="",
        tests=(ORIGINS,),
    ),
    Mutant(
        name="a backfill below the origin is visible half done",
        rule="R12",
        file="coordination/cuts.py",
        old="            low=moved.origin if record.kind is TableKind.INCREMENTAL else None,",
        new="            low=None,",
        tests=(ORIGINS,),
    ),
    Mutant(
        name="a job reads what lies below the origin of its input",
        rule="R12",
        file="domain/beginning.py",
        old="                    origin=moved.origin if record.kind is TableKind.INCREMENTAL else None,",
        new="                    origin=None,",
        tests=(ORIGINS,),
    ),
    Mutant(
        name="what reads to below the origin does not wait for a backfill",
        rule="R12",
        file="domain/cut.py",
        old="    if progress.start is not None and progress.start < origin:",
        new="    if progress.start is not None and progress.start > origin:",
        tests=(ORIGINS,),
    ),
    Mutant(
        name="a commit that moves the origin tells no reader",
        rule="R13",
        file="domain/watermark.py",
        old="        if lows:",
        new="        if lows and self.covers(interval):",
        tests=(
            ORIGINS,
            REWRITES,
        ),
    ),
    Mutant(
        name="a skipped epoch's copy does not depend on the epoch before",
        rule="R18",
        file="domain/registration.py",
        old="    return [*found, *((job, copied) for job in owners)]",
        new="    return found + [(job, copied) for job in owners[:0]]",
        tests=(SKIPPING,),
    ),
    Mutant(
        name="a fill publishes the tables that stay, too",
        rule="R7",
        file=PUBLISHING,
        old="        published = [one for one in attempt.sinks if one.name in (record.fills or names)]",
        new="        published = [one for one in attempt.sinks if one.name in names]",
        tests=(FILLING,),
    ),
    Mutant(
        name="a fill forgets what the committed tables were computed from",
        rule="R18",
        file="domain/filling.py",
        old="        inputs=tuple(dict.fromkeys((*before.inputs, *now.inputs))),",
        new="        inputs=now.inputs[:0],",
        tests=(FILLING,),
    ),
    Mutant(
        name="a fill reads its inputs anew",
        rule="R7",
        file="domain/filling.py",
        old="    return [known.get((one.table, one.kind, one.low, one.high), one) for one in resolved]",
        new="    return [one for one in resolved if known or resolved]",
        tests=(FILLING,),
    ),
    Mutant(
        name="cuts of the whole domain go back for a new job",
        rule="R7",
        file="domain/alignment.py",
        old="            limits.append(limit if record.joins is None else max(limit, record.joins))",
        new="            limits.append(limit if record.joins is None else min(limit, record.joins))",
        tests=(READING,),
    ),
    Mutant(
        name="a refused begin makes its declaration known",
        rule="R7",
        file=BEGINNING,
        old="        answer = self._decided(reading, job, followed.unseen, dry=declaration.register is not None)\n",
        new="        if declaration.register is not None:\n"
        "            declaration.register.run()\n"
        "        answer = self._decided(reading, job, followed.unseen, dry=declaration.register is not None)\n",
        tests=(DECLARING,),
    ),
    *PLANTED_IN_UPKEEP,
    *PLANTED_IN_ROOTS,
    *OF_PUBLISHING,
    *PLANTED_IN_STORES,
    *PLANTED_IN_RUNS,
    *PLANTED_IN_SERVERS,
)
"""The planted errors, in the order in which they are tried."""
