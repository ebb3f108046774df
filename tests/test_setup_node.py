"""Setting up what comes from npm: whole or not at all, and quick when it is there."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPTS = Path(__file__).resolve().parent.parent / "scripts"


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "scripts" / "node").mkdir(parents=True)
    shutil.copy(SCRIPTS / "setup_node.py", tmp_path / "scripts")
    shutil.copy(SCRIPTS / "node" / "package.json", tmp_path / "scripts" / "node")
    return tmp_path


def set_up(project: Path) -> subprocess.CompletedProcess[str]:
    """Nobody answers where the registry should be."""
    settings = {"npm_config_registry": "http://127.0.0.1:9", "npm_config_fetch_retries": "0"}
    settings["npm_config_cache"] = str(project / "npm")
    asked = [sys.executable, str(project / "scripts" / "setup_node.py")]
    return subprocess.run(asked, env=os.environ | settings, capture_output=True, text=True, timeout=120)


def test_without_a_registry_it_says_so_and_leaves_nothing_behind(project: Path) -> None:
    done = set_up(project)
    assert done.returncode == 1
    assert "npm could not install the packages of scripts/node/package.json" in done.stderr
    assert "ECONNREFUSED" in done.stderr
    assert list((project / ".cache").iterdir()) == []


def test_what_is_there_is_not_fetched_again_until_other_versions_are_wanted(project: Path) -> None:
    installed = project / ".cache" / "node"
    (installed / "node_modules").mkdir(parents=True)
    wanted = project / "scripts" / "node" / "package.json"
    shutil.copy(wanted, installed)
    done = set_up(project)
    assert (done.returncode, done.stdout.split(":")[0]) == (0, "already there")
    wanted.write_text(wanted.read_text() + "\n")
    assert set_up(project).returncode == 1
    assert (installed / "node_modules").is_dir()  # the old ones stay until there are new ones


def test_every_version_is_exact() -> None:
    wanted = json.loads((SCRIPTS / "node" / "package.json").read_text())["dependencies"]
    assert wanted and all(version[0].isdigit() for version in wanted.values())
