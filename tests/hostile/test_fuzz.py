"""The fuzzers: a short run of each, always with the same inputs; and that they find what is there to be found.

`make fuzz` runs them for longer, each time with others.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import strategies as st

from fuzz.__main__ import main
from fuzz.law import Hangs, Target, outcome
from fuzz.run import Finding, examine, examine_all
from fuzz.targets import TARGETS
from tests.examples import examples

EXAMPLES = examples(200)


@pytest.mark.parametrize("target", TARGETS.values(), ids=TARGETS)
def test_no_input_breaks_the_law_of_a_target(target: Target) -> None:
    finding = examine(target, max(EXAMPLES // target.cost, 5))

    assert finding is None, str(finding)


def _refuses_sevens(value: int) -> None:
    outcome(lambda: 1 // (value - 5), ZeroDivisionError)
    if value >= 7:
        raise KeyError(value)


SEVENS = Target("sevens", st.integers(0, 1000), _refuses_sevens)


def test_what_breaks_a_law_is_found_reduced_and_written_to_a_file(tmp_path: Path) -> None:
    finding = examine(SEVENS, 100)

    assert finding is not None
    assert (finding.input, type(finding.error)) == (7, KeyError)
    assert "input:\n7\n" in finding.write(tmp_path).read_text()


def test_an_input_that_never_ends_is_a_finding() -> None:
    def law(value: int) -> None:
        while value:
            pass

    finding = examine(Target("endless", st.sampled_from([0, 1]), law), 10, seconds=0.05)

    assert finding is not None
    assert (finding.input, type(finding.error)) == (1, Hangs)


def test_a_run_goes_on_with_the_other_targets_after_a_finding(tmp_path: Path) -> None:
    lines: list[str] = []
    good = Target("good", st.integers(), lambda value: None)

    found = examine_all([SEVENS, good], 0.3, lines.append, seed=1, folder=tmp_path)

    assert [(each.target, each.input) for each in found] == [("sevens", 7)]
    assert [path.name.partition("-")[0] for path in tmp_path.iterdir()] == ["sevens"]
    assert any("1 findings" in line for line in lines)


def test_the_command_says_which_targets_there_are(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--seconds", "0", "no-such-target"]) == 2
    assert "journal" in capsys.readouterr().err
    assert main(["--seconds", "0.01", "--seed", "1", "merkle"]) == 0


def test_a_finding_shows_its_input_even_if_that_is_no_text(tmp_path: Path) -> None:
    finding = Finding("x", "\ud800", ValueError("\ud800"))

    assert "ud800" in finding.write(tmp_path).read_text()
