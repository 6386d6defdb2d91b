"""What happened in a simulation, counted; what must have happened often for it to prove anything."""

from __future__ import annotations

from enum import StrEnum


class Event(StrEnum):
    """Something that a run should have met."""

    ZOMBIE_WROTE = "zombie wrote after its fence"
    PUBLISH_REPLY_LOST = "reply of publish lost"
    LEASE_ENDED = "lease ended while read"
    UNDO_RAN = "undo ran"
    ADOPTED = "adoption"
    REBASED = "publish rebased"
    RESOLVED_AGAIN = "inputs resolved again"
    TAKEN_OVER = "take-over after a TTL"
    REVISION = "revision over a commit"
    HEAD_LOST = "race for the head lost"
    CHECK_FAILED = "output refused by a check"
    SKIPPED = "epoch skipped"
    RETIRED = "table retired"
    INHERITED = "table taken over"
    SLOWED = "cadence changed"
    PARTICIPANT_RETRIED = "earlier try of a participant refused"
    RESTATED = "restatement published"
    ABANDONED = "restatement abandoned"
    COMPUTED_AGAIN = "member computed again within its restatement"
    MEMBER_OUTDATED = "publish of a restatement refused, a member outdated"
    MEMBERS_JOINED = "publish of a restatement refused, members joined"
    RESTATED_MEANWHILE = "publish refused, inputs restated"
    RESTATED_REPLY_LOST = "reply of a restatement's publish lost"
    HALF_RESTATED = "crash between the members of a restatement"
    UNAPPROVED = "publish of a restatement refused, not approved"
    DEADLINE_PASSED = "deadline of a restatement passed"
    HELD = "epoch held by a restatement"
    LET_GO = "epoch begun after the end of the restatement that held it"
    RESTATEMENT_REFUSED = "restatement refused"
    STAGED_READ = "staged cut read and checked"
    STAGED_GONE = "staged rows gone while read"
    SIDE_BY_SIDE = "restatement opened beside another"
    RESTATEMENT_HELD = "restatement held"
    CLOSING = "begin waited for the publish of a restatement"
    REVERTED = "restatement taken back"
    REVERTED_WITH_READERS = "restatement taken back with later readers"
    REVERT_ANEW = "abandoned revert opened anew"
    REVERT_REFUSED = "revert refused"
    HALF_REVERTED = "crash within a revert"
    HOLD_JOINED = "held epochs joined"
    HOLD_RELEASED = "hold released"
    RELEASED_READ = "cut of released rows"
    RERUN_RESTATED = "restatement opened by a run"
    RERUN_JOINED = "restatement joined by another run of its DAG"
    GROUP_PUBLISHED = "group published"
    GROUP_REPLY_LOST = "reply of a group's publish lost"
    GROUP_UPSTREAM_LAST = "group published, a job that others read staged last"
    GROUP_COMPUTED_AGAIN = "member of a group computed again"
    GROUP_STALLED = "stage refused to publish a group, a member outdated"
    GROUP_ABANDONED = "barrier of a group abandoned"
    GROUP_ANEW = "abandoned barrier of a group opened anew"
    GROUP_WITHOUT = "group published beside a skipped job"
    HALF_GROUP = "crash between the members of a group"
    ROLLED_BACK = "domain rolled back"
    ROLLBACK_REFUSED = "rollback refused by name"
    ROLLBACK_REPLY_LOST = "reply of a rollback lost"
    ROLLBACK_CRASHED = "crash within a rollback"
    INPUT_TAKEN_BACK = "publish refused, inputs rolled back"
    COMMITTED_ANEW = "epoch computed again after a rollback"
    # Beside those that the project promises: what shows that the generator reaches its corners.
    CRASH_BEFORE = "crash before a call"
    CRASH_AFTER = "crash after a call"
    REQUEST_LOST = "request lost"
    REPLY_LOST = "reply lost"
    PAUSED = "process paused"
    FENCED = "attempt refused as over"
    BUSY = "epoch busy"
    NOT_READY = "inputs not ready"
    READERS_REFUSED = "revision refused for its readers"
    INACTIVE = "cut past an inactive job"
    TOPOLOGY_REFUSED = "attempt refused by the topology"
    INPUTS_REWRITTEN = "publish refused, inputs computed again"
    ALREADY_COMMITTED = "already committed"
    ABORTED = "attempt aborted"
    EMPTY = "empty slice committed"
    CUT_READ = "cut read and checked"
    CUT_READ_AGAIN = "cut read again after other commits"
    MEMBER_REFUSED = "member refused by its checks"
    COPIED = "skipped epoch copied anew within a restatement"
    SESSION_TAKEN_BACK = "session refused after a rollback"
    ROLLBACK_REPEATED = "rollback repeated after a lost reply"
    TAKEN_BACK_READ = "lease read what was rolled back since"
    # Of domains that change.
    ORIGIN_MOVED = "declared origin moved"
    FINER = "cadence made finer"
    COARSER = "cadence made coarser"
    OUTPUT_ADDED = "output added"
    OUTPUT_LEFT = "output left"
    CAME_BACK = "older declaration came back"
    REGISTERED_LATE = "job registered late"
    DECLARATION_REFUSED = "refused for good"
    LATE_FILE = "file landed late"
    REPLACED_FILE = "file replaced"
    MISSING_FILE = "file missing"
    LATE_ID = "id seen after greater ones"
    SOURCE_REVISION = "source recorded in another revision"
    SKIPPED_FULL = "skip copied a full table"
    CORRECTED = "skip computed after all"
    EXPIRED = "state expired"
    VACUUMED = "vacuum deleted versions"
    ORPHANS = "vacuum deleted orphans"
    VACUUMED_MANY = "vacuum after many commits"
    LONG_PAUSE = "long pause"
    FORKED = "begin by a forked process"
    SLOW_PUBLISHED = "slow publisher came through"
    RESTORED = "session refused by a restored store"
    HOLE_FILLED = "hole of one table filled"
    SEEN_BY_CATALOG = "table loaded from the catalog"
    LAGGING_POINTER = "the catalog's pointer lagged"
    DOCTOR = "doctor found nothing"
    LEASE_KEPT = "lease kept what was superseded long ago"
    IN_SESSION = "cut in a session"
    NEARLY_FULL = "record near its limit"
    OUTDATED = "cut of rows that an edge has left behind"
    BOUND_ANEW = "source bound anew, epochs behind it"
    TOGETHER = "several epochs committed together"
    BEHIND_REFUSED = "begin refused, an input behind its source"
    BEHIND_LOST = "publish refused, an input behind its source"
    BEHIND_MENDED = "epoch behind its source computed again"
    BACK_AGAIN = "source as it was recorded before"
    MIXED = "cut of two revisions of a source"
    STAYED = "cut of rows of an earlier revision than others of their epoch"
    SKIPPED_FAILED = "skip of an epoch that had recorded bounds"
    REVISION_FAILED = "revision that had recorded bounds failed"
    BIND_REFUSED = "bind refused"
    RENAMED = "source renamed"
    OTHER_NAME_REFUSED = "refused: read by another name"
    SAME_END = "epoch begun that ends with one of another calendar"
    UNREAD_NAMED = "doctor named a file that no epoch reads"


FAULTS = frozenset(
    {Event.CRASH_BEFORE, Event.CRASH_AFTER, Event.REQUEST_LOST, Event.REPLY_LOST, Event.PAUSED}
)

PROMISED = (
    Event.ZOMBIE_WROTE,
    Event.PUBLISH_REPLY_LOST,
    Event.LEASE_ENDED,
    Event.UNDO_RAN,
    Event.ADOPTED,
    Event.REBASED,
    Event.RESOLVED_AGAIN,
    Event.TAKEN_OVER,
    Event.REVISION,
    Event.HEAD_LOST,
    Event.CHECK_FAILED,
    Event.SKIPPED,
    Event.INACTIVE,
    Event.RETIRED,
    Event.INHERITED,
    Event.SLOWED,
    Event.PARTICIPANT_RETRIED,
    Event.RESTATED,
    Event.ABANDONED,
    Event.COMPUTED_AGAIN,
    Event.MEMBER_OUTDATED,
    Event.MEMBERS_JOINED,
    Event.RESTATED_MEANWHILE,
    Event.RESTATED_REPLY_LOST,
    Event.HALF_RESTATED,
    Event.UNAPPROVED,
    Event.DEADLINE_PASSED,
    Event.HELD,
    Event.LET_GO,
    Event.RESTATEMENT_REFUSED,
    Event.STAGED_READ,
    Event.STAGED_GONE,
    Event.SIDE_BY_SIDE,
    Event.RESTATEMENT_HELD,
    Event.CLOSING,
    Event.REVERTED,
    Event.REVERTED_WITH_READERS,
    Event.REVERT_ANEW,
    Event.REVERT_REFUSED,
    Event.HALF_REVERTED,
    Event.HOLD_JOINED,
    Event.HOLD_RELEASED,
    Event.RELEASED_READ,
    Event.RERUN_RESTATED,
    Event.RERUN_JOINED,
    Event.GROUP_PUBLISHED,
    Event.GROUP_REPLY_LOST,
    Event.GROUP_UPSTREAM_LAST,
    Event.GROUP_COMPUTED_AGAIN,
    Event.GROUP_STALLED,
    Event.GROUP_ABANDONED,
    Event.GROUP_ANEW,
    Event.GROUP_WITHOUT,
    Event.HALF_GROUP,
    Event.ROLLED_BACK,
    Event.ROLLBACK_REFUSED,
    Event.ROLLBACK_REPLY_LOST,
    Event.ROLLBACK_CRASHED,
    Event.INPUT_TAKEN_BACK,
    Event.COMMITTED_ANEW,
    Event.ORIGIN_MOVED,
    Event.FINER,
    Event.COARSER,
    Event.OUTPUT_ADDED,
    Event.OUTPUT_LEFT,
    Event.CAME_BACK,
    Event.REGISTERED_LATE,
    Event.LATE_FILE,
    Event.REPLACED_FILE,
    Event.MISSING_FILE,
    Event.LATE_ID,
    Event.SOURCE_REVISION,
    Event.SKIPPED_FULL,
    Event.CORRECTED,
    Event.EXPIRED,
    Event.VACUUMED,
    Event.VACUUMED_MANY,
    Event.ORPHANS,
    Event.LEASE_KEPT,
    Event.LONG_PAUSE,
    Event.FORKED,
    Event.SLOW_PUBLISHED,
    Event.RESTORED,
    Event.HOLE_FILLED,
    Event.OUTDATED,
    Event.BOUND_ANEW,
    Event.TOGETHER,
    Event.BEHIND_REFUSED,
    Event.BEHIND_LOST,
    Event.BEHIND_MENDED,
    Event.BACK_AGAIN,
    Event.MIXED,
    Event.STAYED,
    Event.SKIPPED_FAILED,
    Event.REVISION_FAILED,
    Event.RENAMED,
    Event.OTHER_NAME_REFUSED,
    Event.UNREAD_NAMED,
    Event.SAME_END,
    Event.IN_SESSION,
    Event.NEARLY_FULL,
    Event.DOCTOR,
    Event.SEEN_BY_CATALOG,
    Event.LAGGING_POINTER,
)
"""Events of which a whole run must meet each some fifty times."""
