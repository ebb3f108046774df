"""`handrail confirm rules` and `handrail confirm forget`."""

from __future__ import annotations

from pathlib import Path

import pytest

from handrail.config.approvals import Approvals
from tests.cli.journal_fixtures import lines, run

PAY = f"allow pay@sha256:{'4' * 64} to=ada"
NOTE = f"allow note@sha256:{'4' * 64}"


@pytest.fixture
def approvals(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Approvals:
    """Of the user, who stands in a folder with a configuration and two standing rules."""
    (tmp_path / "handrail.toml").touch()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "home"))
    monkeypatch.delenv("HANDRAIL_CONFIG", raising=False)
    approvals = Approvals.here()
    for rule in (PAY, NOTE):
        approvals.add_rule(tmp_path / "handrail.toml", rule)
    return approvals


@pytest.mark.usefixtures("approvals")
def test_they_are_listed_in_the_order_in_which_they_are_asked() -> None:
    assert run("confirm", "rules").stdout.splitlines() == [NOTE, PAY]
    assert lines(run("confirm", "rules", "--json")) == [{"rule": NOTE}, {"rule": PAY}]


def test_one_is_taken_back_and_the_others_stay(approvals: Approvals, tmp_path: Path) -> None:
    forgotten = run("confirm", "forget", NOTE)
    again = run("confirm", "forget", NOTE)

    assert (forgotten.exit_code, forgotten.stdout) == (0, f"forgotten: {NOTE}\n")
    assert (again.exit_code, "handrail confirm rules lists them" in again.stderr) == (1, True)
    assert approvals.rules(tmp_path / "handrail.toml") == (PAY,)
    assert lines(run("confirm", "forget", PAY, "--json")) == [{"rule": PAY, "holds": False}]
    assert "no standing rules" in run("confirm", "rules").stderr


@pytest.mark.usefixtures("approvals")
def test_those_of_another_configuration_are_its_own(tmp_path: Path) -> None:
    other = tmp_path / "other.toml"
    other.touch()

    assert run("confirm", "rules", "--config", str(other)).stdout == ""
