"""A table of a cut as a metadata file, which other engines open without the package (docs/decisions/cut-files.md)."""

from __future__ import annotations

from airflow_provider.coordination.reading.cuts import Cuts, state_in
from airflow_provider.domain.cut import Cut
from airflow_provider.domain.errors import InvalidInput
from airflow_provider.domain.read_options import Level
from airflow_provider.domain.topology import Table
from airflow_provider.tables.cut_files import CutFile, with_cut_files


def cut_file(cuts: Cuts, cut: Cut, table: str | Table) -> CutFile:
    """Return a metadata file whose only rows are those of *table* in *cut*; write it if it is not there.

    The file keeps nothing readable: hold the cut by a lease, and call ``cuts.check(cut)`` when it was read.

    :raises InvalidInput: the cut is of READ_UNCOMMITTED, or the table's format has no cut files.
    :raises LeaseExpired: the cut's time is over.
    :raises Unavailable: a metadata file of the cut is missing.
    :raises WarehouseUnavailable: this process may not write to the warehouse.
    """
    if cut.level is Level.READ_UNCOMMITTED:
        raise InvalidInput(
            field="cut",
            value=cut.level.value,
            expected="a cut of committed rows",
            next_step="make the cut at read_committed; cut[table].to_arrow() reads this one.",
        )
    state = state_in(cut, table)
    table_format = with_cut_files(cuts.format_of(state), state.table)
    cuts.check(cut, [table])
    try:
        return table_format.cut_file(state, cuts.schema(cut.domain, state))
    finally:
        # Also after an error: a file that is missing because the cut is over is reported as LeaseExpired.
        cuts.check(cut, [table])
