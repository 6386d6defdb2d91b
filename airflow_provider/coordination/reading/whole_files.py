"""Files of a state, for programs that read whole files."""

from __future__ import annotations

from airflow_provider.domain.cut import State
from airflow_provider.domain.errors import InvalidInput
from airflow_provider.tables.base import TableFormat


def whole_files(table_format: TableFormat, state: State) -> list[str]:
    """Return the URIs of the data files that hold exactly the rows of *state*.

    :raises InvalidInput: a file has rows of other epochs, too: the table was compacted.
    """
    found = table_format.sized(state)
    if found.clip is None:
        return list(found.files)
    raise InvalidInput(
        f"table {state.table!r} at {state.barrier.isoformat()}: files of compacted epochs have rows of others, too.",
        next_step=f"take the cut's own file: cut[{str(state.table)!r}].metadata_location; or read the rows by "
        "cut[…].to_arrow().",
        field="cut",
        value=state.barrier.isoformat(),
        expected="a cut of whole files",
        table=str(state.table),
    )
