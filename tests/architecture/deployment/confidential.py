"""Whether every secret comes from the environment, and every variable is one that is documented."""

from __future__ import annotations

import re

from tests.architecture.deployment.model import Finding, Findings
from tests.services import compose
from tests.services.compose import ROOT, Document

PAGE = ROOT / "deploy" / "secrets.md"
_NAME = re.compile(r"password|secret|_key\b|key_id|token|credential", re.IGNORECASE)
_FORM = re.compile(r"\$\{[A-Z][A-Z0-9_]*:\?[^}]+\}")


def secret_names() -> set[str]:
    """The variables that deploy/secrets.md lists."""
    rows = [line for line in PAGE.read_text().splitlines() if line.startswith("| `")]
    return {name for row in rows for name in re.findall(r"`([A-Z][A-Z0-9_]+)`", row.split("|")[1])}


def samples() -> dict[str, str]:
    """A value for each secret, none like another, so that a mix-up is seen."""
    return {name: f"sample{name.lower().replace('_', '')}" for name in secret_names()}


def secret_problems(raw: Document) -> Findings:
    """:param raw: the file, its variables not yet put in."""
    documented = secret_names() | set(compose.versions())
    for path, text in compose.texts(raw):
        service, setting = _place(path)
        name = path.rsplit(".", 1)[-1]
        inside = re.findall(r'"(\w+)": "([^"]*)"', text) + re.findall(r"(//\w+):([^@/]*)@", text)
        given = [(name, text)] if _NAME.search(name) and "environment" in path else []
        for field, value in given + [
            one for one in inside if _NAME.search(one[0]) or one[0].startswith("//")
        ]:
            if not _FORM.fullmatch(value):
                yield Finding(service, setting, f"the secret {field} is not of the form ${{NAME:?message}}")
        for variable in sorted(compose.variables({"": text}) - documented):
            yield Finding(service, setting, f"{variable} is in neither deploy/secrets.md nor versions.env")


def _place(path: str) -> tuple[str, str]:
    words = path.split(".")
    if words[0] == "services":
        return words[1], ".".join(words[2:]).removeprefix("environment.")
    return words[0], ".".join(words[1:])
