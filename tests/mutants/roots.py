"""Wrong rules about roots: revisions, conditions of completeness, late data."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

LANDING = "tests/contract/test_coordination_landing.py"
ROOT_REVISIONS = "tests/contract/test_coordination_root_revisions.py"

PLANTED_IN_ROOTS = (
    Mutant(
        name="a root is read anew although another job has committed what it read of it",
        rule="I11",
        file="coordination/root_readers.py",
        old="if read == revision:",
        new="if read > revision:",
        tests=(ROOT_REVISIONS,),
    ),
    Mutant(
        name="a revision of a root that came to nothing is read beside a commit of the one before",
        rule="I11",
        file="coordination/bounding.py",
        old="if committed != newest:",
        new="if committed > newest:",
        tests=(ROOT_REVISIONS,),
    ),
    Mutant(
        name="publish does not require that its roots are the newest revisions",
        rule="I11",
        file="coordination/root_readers.py",
        old="return [Absent(key) for key in keys]",
        new="return []",
        tests=(ROOT_REVISIONS,),
    ),
    Mutant(
        name="bounds that another job commits on meanwhile are taken anew",
        rule="I11",
        file="coordination/root_readers.py",
        old="required = tuple(unchanged(reading, key) for key in keys.values())",
        new="required = ()",
        tests=(ROOT_REVISIONS,),
    ),
    Mutant(
        name="output that was computed from an earlier revision of a root is adopted",
        rule="I11",
        file="coordination/beginning.py",
        old="keeps = before is not None and not fresh and self._bounding.are_newest(before.roots)",
        new="keeps = before is not None and not fresh",
        tests=(ROOT_REVISIONS,),
    ),
    Mutant(
        name="what a failed epoch found at its root binds the next try",
        rule="I11",
        file="domain/roots.py",
        old="return not others",
        new="return False",
        tests=(ROOT_REVISIONS,),
    ),
    Mutant(
        name="a folder with half of its files is complete",
        rule="I11",
        file="sources/files.py",
        old="if condition.kind is ConditionKind.MIN_FILES and len(files) < condition.files:",
        new="if condition.kind is ConditionKind.MIN_FILES and not files:",
        tests=(LANDING,),
    ),
    Mutant(
        name="late rows are looked for in the last span only",
        rule="I11",
        file="sources/postgresql.py",
        old="for record, found in ids.grown(asked.before):",
        new="for record, found in ids.grown(asked.before[:1]):",
        tests=(LANDING,),
    ),
    Mutant(
        name="a marker is not waited for",
        rule="I11",
        file="sources/files.py",
        old="if not _is_there(root, place):",
        new="if not place:",
        tests=(LANDING,),
    ),
    Mutant(
        name="late files are looked for at the last 31 barriers only",
        rule="I11",
        file="coordination/bounding.py",
        old="if barrier not in earlier and barrier < first and (earlier or not root.has_spans):",
        new="if barrier not in earlier and len(earlier) == 31:",
        tests=(LANDING,),
    ),
    Mutant(
        name="a file that another epoch has read is passed over although it was replaced",
        rule="I11",
        file="sources/files.py",
        old="_refuse_replaced(asked, [file for file in own.files if known.get(file.uri, file) != file])",
        new="_refuse_replaced(asked, [])",
        tests=(LANDING,),
    ),
    Mutant(
        name="a root that its job has left may be declared again elsewhere",
        rule="I11",
        file="coordination/registering.py",
        old="known = {root.name: root for job in jobs for root in job.left_roots}",
        new="known = {}",
        tests=(LANDING,),
    ),
    Mutant(
        name="doctor passes over a root whose source does not answer",
        rule="I11",
        file="coordination/unread.py",
        old="yield Unread(root=root, late=(), replaced=(), problem=error)",
        new="continue",
        tests=(LANDING,),
    ),
    Mutant(
        name="files that are ignored are counted without a bound in time",
        rule="I11",
        file="coordination/unread.py",
        old="_records(reader, domain, root, until - root.window)",
        new="_records(reader, domain, root, None)",
        tests=(LANDING,),
    ),
    Mutant(
        name="each record that names a source's files holds all of them",
        rule="I11",
        file="domain/roots.py",
        old="is_long = packs and len(bounds.files) > PLAIN_FILES",
        new="is_long = False",
        tests=(ROOT_REVISIONS,),
    ),
    Mutant(
        name="a folder that does not answer ends a begin by the file system's own error",
        rule="I11",
        file="sources/roots.py",
        old="                with _answering(asked.root):\n                    return files.bounds(asked)\n",
        new="                return files.bounds(asked)\n",
        tests=(LANDING,),
    ),
)
