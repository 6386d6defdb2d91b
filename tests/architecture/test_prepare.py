"""What `scripts/prepare` may not touch."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

from tests.architecture.sources import ROOT


def test_the_target_of_a_linked_environment_is_left_alone(tmp_path: Path) -> None:
    """Such as another checkout's: a worktree with a link to it would have emptied it."""
    checkout, others = tmp_path / "checkout", tmp_path / "others"
    (checkout / "scripts").mkdir(parents=True)
    for name in ("setup.cfg", "pyproject.toml", "constraints.txt", "scripts/prepare"):
        shutil.copy(ROOT / name, checkout / name)
    others.mkdir()
    (others / "pyvenv.cfg").write_text("home = somewhere\n")
    (checkout / ".venv").symlink_to(others)
    done = subprocess.run(
        ["bash", str(checkout / "scripts" / "prepare")],
        env={"PATH": f"{Path(sys.executable).parent}:/usr/bin:/bin", "PYTHON": sys.executable},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1, done.stdout + done.stderr
    assert f"not prepared: .venv is a link to {others}" in done.stdout
    assert (others / "pyvenv.cfg").read_text() == "home = somewhere\n"
    assert (checkout / ".venv").is_symlink()
