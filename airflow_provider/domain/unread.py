"""Reports of data of sources that no epoch reads, or not the epochs of each job (section 5). Pure values."""

from __future__ import annotations

from dataclasses import dataclass
from shlex import quote

from airflow_provider.domain.errors import EpochError
from airflow_provider.domain.identifiers import DomainName
from airflow_provider.domain.interval import Interval
from airflow_provider.domain.source_bounds import Late, Source

_NAMED = 3
_MOVE = "move them to where a coming epoch looks"


@dataclass(frozen=True, kw_only=True, slots=True)
class Unread:
    """Data of a source that no epoch reads, or that one job does not read.

    :param late: URIs of files that came late, or texts that name a span.
    :param replaced: URIs of files that were replaced after an epoch had read them.
    :param epochs: the epochs at whose locations the files lie. :param comes: the next begin reads the late ones.
    :param skipped: the files lie where only skipped epochs would look.
    :param left: of a source that no job declares any more: the name of the source by which a job that declared it reads
        the same location now, or its own name.
    :param between: the files lie at locations of parts of *epochs*, where no epoch looks.
    :param passed: the files lie where the source looks for *epochs*, which the job has computed by another source.
    :param job: the job that has skipped the first of *epochs*, whose bounds have the late files.
    :param renamed: *job* has not skipped it, but reads another source there; a job that declares this source reads the
        files when it computes that epoch again.
    :param taken_over: they were read for other tables only than those of *epochs* that *job* has taken over.
    :param problem: error of the source; then its data is unknown.
    """

    source: Source
    late: tuple[str, ...]
    replaced: tuple[str, ...] = ()
    epochs: tuple[Interval, ...] = ()
    comes: bool = False
    skipped: bool = False
    left: str = ""
    between: bool = False
    passed: bool = False
    job: str = ""
    renamed: bool = False
    taken_over: bool = False
    problem: EpochError | None = None

    def __str__(self) -> str:
        if self.problem is not None:
            return f"late data was not looked for: {self.problem.message}"
        if self.job:
            whose = "another job has" if self.taken_over else f"job {self.job} has"
            late = f"{len(self.late)} came late to epochs that {whose} computed, such as {self.late[0]}; "
            if self.taken_over:
                return f"{late}they were read for other tables, and those that job {self.job} took over lack them"
            if self.left:
                return f"{late}no epoch of the job reads them"
            why = f"does not read as source {self.source.name}" if self.renamed else "has skipped"
            return f"{late}they belong to {self.epochs[0]}, which it {why}"
        unread = "are of skipped epochs" if self.skipped else "came late"
        if self.between:
            unread = "lie at locations of parts of epochs"
        if self.passed:
            unread = "lie where it looks for epochs that were computed by another source"
        parts = [
            f"{len(names)} {what}, such as {', '.join(names[:_NAMED])}"
            for names, what in (
                (self.late, f"{unread} and are read by no epoch"),
                (self.replaced, "were replaced after an epoch had read them"),
            )
            if names
        ]
        return "; ".join(parts)

    @property
    def is_urgent(self) -> bool:
        """True if data is lost unless an operator acts; other data is read later, or left out as declared."""
        if self.renamed:
            return True
        return not (
            self.comes or self.skipped or self.job or self._is_ignored or self.left == self.source.name
        )

    @property
    def _is_ignored(self) -> bool:
        return self.source.late is Late.IGNORE and not (self.replaced or self.between or self.passed)

    def next_step(self, domain: DomainName) -> str:
        """Return the step after which an epoch reads the data."""
        if self.comes:
            return "nothing: the next begin reads them."
        if self.job:
            return self._next_step_of_the_job()
        if self.skipped:
            return "nothing, if they are to be left out; otherwise clear the tasks of these epochs."
        if self.between:
            other = "let a source of another name say no more of the time than the cadence"
            return f"{_MOVE}; or {other}, and clear the tasks of these epochs."
        if self.passed:
            return f"{_MOVE}; nothing, if they are copies of what these epochs have read by the other source."
        if self._is_ignored:
            return f"nothing, as late='ignore' says; or {_MOVE}."
        if self.left and self.replaced:
            return (
                "nothing, if the rows that were computed from them are to stay; otherwise bring the files back, and "
                "land the new data under other names where the next begin looks: no job declares this source any more."
            )
        if self.left == self.source.name:
            return "nothing, if they are to be left out: no job declares this source any more."
        if self.left:
            return f"{_MOVE}: source {self.left}, which is read now, does not look here."
        # The earliest first: with late='refuse' no epoch is bound beside late files of one before it.
        ordered = sorted(self.epochs, key=lambda epoch: epoch.start)
        epochs = [f"{epoch.start.isoformat()}/{epoch.end.isoformat()}" for epoch in ordered] or ["INTERVAL"]
        more = f" (likewise for {len(epochs) - 1} more epochs)" if len(epochs) > 1 else ""
        refused = f"; where readers keep it from being bound, {_MOVE}" if self.late else ""
        words = f"bind {quote(self.source.name)} {epochs[0]} --reason … --domain {quote(domain)}"
        return f"`airflow epochs {words}`{more}, then clear the tasks of the epoch{refused}."

    def _next_step_of_the_job(self) -> str:
        """Return the step after which an epoch of the one job reads the files."""
        if self.renamed and self.left:
            return f"{_MOVE}: job {self.job} has left source {self.left}."
        if self.taken_over:
            return (
                "nothing, if the tables that were taken over are to do without them; a copy of the files where the "
                f"next begin looks comes to all tables of job {self.job}."
            )
        clear = f"clear the task of job {self.job} for {self.epochs[0]}, which reads them"
        return f"nothing, if the job is to do without them; otherwise {clear}."
