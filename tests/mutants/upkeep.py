"""Wrong rules in retention and in the checks of a live store."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

AUDITING = "tests/contract/test_coordination_auditing.py"
RETENTION = "tests/contract/test_coordination_retention.py"
UPKEEP = "tests/contract/test_coordination_upkeep.py"
WAREHOUSES = "tests/contract/test_coordination_warehouses.py"
WITHDRAWN = "tests/unit/test_withdrawn.py"

PLANTED_IN_UPKEEP = (
    Mutant(
        name="any number of gaps may lie in a table",
        rule="R12",
        file="domain/sizes.py",
        old="if number > max(most, len(record.progress.islands)):",
        new="if number > max(most, number):",
        tests=(UPKEEP,),
    ),
    Mutant(
        name="one page has all versions of a table",
        rule="R24",
        file="domain/retention.py",
        old="first = max(most, len(self.versions))",
        new="first = len(versions)",
        tests=(UPKEEP,),
    ),
    Mutant(
        name="the horizon passes versions that nobody has written down",
        rule="R24",
        file="coordination/retention.py",
        old="            remember_versions(self.store, domain, name, found, most)\n",
        new="            pass\n",
        tests=(UPKEEP,),
    ),
    Mutant(
        name="what another sweep has deleted is asked for as if it had to be kept",
        rule="R24",
        file="coordination/retention.py",
        old="                if found == before:\n",
        new="                if before.gone:\n",
        tests=(RETENTION,),
    ),
    Mutant(
        name="the version that was the newest at the horizon goes",
        rule="R24",
        file="domain/retention.py",
        old="if one.csn <= horizon and one != newest)",
        new="if one.csn <= horizon)",
        tests=(UPKEEP, RETENTION),
    ),
    Mutant(
        name="the audit takes what was read as nothing for granted",
        rule="I4",
        file="domain/auditing.py",
        old="elif read.ref is None and (",
        new="elif read.ref is not None and (",
        tests=(AUDITING,),
    ),
    Mutant(
        name="the audit does not know that a skipped epoch is a copy",
        rule="I4",
        file="coordination/auditing.py",
        old=" or (skips and name in job.all_outputs)",
        new="",
        tests=(AUDITING,),
    ),
    Mutant(
        name="the audit looks for the newest version's files only",
        rule="I6",
        file="coordination/auditing.py",
        old="(ref, *found.get(table, ()), *claimed.get(table, ()))",
        new="(ref,)",
        tests=(AUDITING,),
    ),
    Mutant(
        name="a hull does not grow with what is withdrawn",
        rule="R24",
        file="domain/withdrawn.py",
        old="    return Interval(min(starts), max(ends))",
        new="    return hull or Interval(min(starts), max(ends))",
        tests=(WITHDRAWN,),
    ),
    Mutant(
        name="a page that is split loses its ranges",
        rule="R24",
        file="domain/withdrawn.py",
        old="        for one in ranges:\n            _withdraw(look, changed, level + 1, one, most)",
        new="        _withdraw(look, changed, level + 1, part, most)",
        tests=(WITHDRAWN,),
    ),
    Mutant(
        name="what was looked up of withdrawals is kept for good",
        rule="R24",
        file="coordination/withdrawals.py",
        old="if known != state or len(pages) > _MOST_REMEMBERED:",
        new="if known is None or len(pages) > _MOST_REMEMBERED:",
        tests=(UPKEEP,),
    ),
    Mutant(
        name="a withdrawal leaves the record that claims require",
        rule="R24",
        file="coordination/retention.py",
        old="return requires, [Put(retention_key(domain), record), *updates], hull_of(stamped, epoch)",
        new="return requires, updates, hull_of(stamped, epoch)",
        tests=(UPKEEP,),
    ),
    Mutant(
        name="a sweep does not look which warehouse it deletes from",
        rule="R33",
        file="coordination/retention.py",
        old="        self._done(lambda: refuse_other_warehouse_of(self.store, checked, self.formats.warehouse))\n",
        new="",
        tests=(WAREHOUSES,),
    ),
    Mutant(
        name="a domain that knows no warehouse takes any for its own",
        rule="R33",
        file="coordination/warehouses.py",
        old="if places and not any(lies_in(place, warehouse) for place in places):",
        new="if places and not any(places):",
        tests=(WAREHOUSES,),
    ),
    Mutant(
        name="a cut is made beside any warehouse",
        rule="R33",
        file="coordination/cuts.py",
        old="        refuse_other_warehouse(name, topology, self.formats.warehouse)\n",
        new="",
        tests=(WAREHOUSES,),
    ),
    Mutant(
        name="manifests of a copy still name the original's files",
        rule="R33",
        file="tables/iceberg/relocating.py",
        old="_NAMES = (_MANIFEST, 100, 143)",
        new="_NAMES = (_MANIFEST,)",
        tests=(WAREHOUSES,),
    ),
    Mutant(
        name="lists of a copy have the lengths of the original's manifests",
        rule="R33",
        file="tables/iceberg/relocating.py",
        old="record[length] = sizes.get(names.uri(record[where]), record[length])",
        new="record[length] = record[length]",
        tests=(WAREHOUSES,),
    ),
    Mutant(
        name="a domain is opened beside a copy that is not whole",
        rule="R33",
        file="coordination/relocating.py",
        old="        if uris:\n",
        new="        if False:\n",
        tests=(WAREHOUSES,),
    ),
    Mutant(
        name="nobody is told of a table that its job has left",
        rule="R7",
        file="coordination/holes.py",
        old="                yield Hole(table=name, job=job.name, span=None)\n",
        new="                pass\n",
        tests=("tests/contract/test_coordination_filling.py", "tests/contract/test_coordination_doctor.py"),
    ),
)
