"""Wrong rules about the catalog for engines, and about the files that it answers with."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

CATALOG = "tests/contract/test_rest_catalog.py"

PLANTED_IN_CATALOG = (
    Mutant(
        name="a prefix goes on in a restored store",
        rule="R22",
        file="rest_catalog/addresses.py",
        old="    said = repr((cut.incarnation, cut.csn,",
        new="    said = repr((cut.csn,",
        tests=(CATALOG,),
        by="test_a_lease_of_others_has_an_address",
    ),
    Mutant(
        name="a prefix goes on with another cut of its lease's name",
        rule="R22",
        file="rest_catalog/catalog.py",
        old="if lease is None or identity(lease.cut) != prefix.cut:",
        new="if lease is None:",
        tests=(CATALOG,),
        by="test_a_lease_of_others_has_an_address",
    ),
    Mutant(
        name="an engine holds a cut of tables that its user may not read",
        rule="R20",
        file="rest_catalog/catalog.py",
        old="        return [name for name in names if name in readable]\n",
        new="        return names if readable else []\n",
        tests=(CATALOG,),
        by="test_hidden_tables_look_like_absent_ones",
    ),
    Mutant(
        name="two states of a table have one snapshot id",
        rule="R22",
        file="tables/iceberg/cut_files.py",
        old="    snapshot_id = _snapshot_id(place)\n",
        new="    snapshot_id = ref.version\n",
        tests=(CATALOG,),
        by="test_states_differ_by_their_snapshots",
    ),
)
