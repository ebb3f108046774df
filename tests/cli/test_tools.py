"""`handrail tools`: looking at tools, checking files of them, calling one by hand."""

from __future__ import annotations

import json
from pathlib import Path

from tests.cli.journal_fixtures import lines, run
from tests.cli.terminal_fixtures import WITH, configure, dialogue, lines_of, run_of

THESE = ("--tools", "talk_tools.py")


def test_the_list_says_what_changes_something(folder: Path) -> None:
    shown = run("tools", "list", *THESE).stdout.splitlines()

    assert [line.split()[:2] for line in shown] == [
        ["TOOL", "EFFECTS"],
        ["add", "reads"],
        ["pay", "writes"],
        ["log_in", "writes"],
        ["count", "reads"],
    ]


def test_configured_tools_are_listed_without_being_named(folder: Path) -> None:
    configure(folder)

    assert [each["scoped_name"] for each in lines(run("tools", "list", "--json"))] == ["box:add", "box:pay"]


def test_without_tools_one_is_told_how_to_have_some(folder: Path) -> None:
    result = run("tools", "list")

    assert (result.exit_code, result.stdout) == (0, "")
    assert "--tools" in result.stderr


def test_a_tool_is_shown_with_its_schema_and_a_wrong_name_with_near_ones(folder: Path) -> None:
    shown, wrong = run("tools", "show", "pay", *THESE), run("tools", "show", "pya", *THESE)
    told = json.loads(run("tools", "show", "pay", *THESE, "--json").stdout)

    assert '"amount"' in shown.stdout
    assert told["input_schema"]["required"] == ["to", "amount"]
    assert (wrong.exit_code, "did you mean 'pay'?" in wrong.stderr) == (1, True)


def test_a_call_by_hand_is_checked_run_and_recorded_like_any_other(folder: Path) -> None:
    good = run("tools", "call", "add", '{"a": 1, "b": 2}', *THESE)
    bad = run("tools", "call", "add", '{"a": 1, "b": "two"}', *THESE)
    piped = run("tools", "call", "add", "-", *THESE, text='{"a": 3, "b": 4}')

    assert (good.exit_code, good.stdout) == (0, "3\n")
    assert (bad.exit_code, bad.stdout) == (1, "")
    assert "b: expected integer" in bad.stderr
    assert piped.stdout == "7\n"
    assert [each["calls"] for each in lines(run("proof", "list", "--json"))] == [1, 1, 1]


def test_a_call_by_hand_that_is_refused_names_its_outcome_once(folder: Path) -> None:
    told = run("tools", "call", "add", '{"a": 1}', *THESE).stderr

    assert told.count("invalid_arguments") == 1


def test_a_side_effect_by_hand_needs_approval_too(folder: Path) -> None:
    arguments = '{"to": "ada", "amount": 5}'

    refused = run("tools", "call", "pay", arguments, *THESE, "--json")
    before = lines_of(folder / "paid.txt")
    allowed = run("tools", "call", "pay", arguments, *THESE, "--yes")

    assert (refused.exit_code, json.loads(refused.stdout)["outcome"], before) == (1, "needs_confirmation", [])
    assert (allowed.exit_code, allowed.stdout) == (0, "paid 5 to ada\n")
    assert lines_of(folder / "paid.txt") == ["ada 5"]


def test_a_call_by_hand_that_waits_is_made_once_when_it_is_allowed(folder: Path) -> None:
    call = ("tools", "call", "pay", '{"to": "ada", "amount": 5}', *THESE)
    told = run(*call).stderr
    there = run_of(told)
    (asked,) = lines(run("confirm", "list", "--json"))

    early = run(*call, "--run", there)
    allowed = run("confirm", "allow", asked["request"])
    elsewhere = run(*call)
    late, again = run(*call, "--run", there), run(*call, "--run", there)

    assert f"--run {there}" in told
    assert (early.exit_code, elsewhere.exit_code, allowed.exit_code) == (1, 1, 0)
    assert (late.stdout, again.stdout) == ("paid 5 to ada\n", "paid 5 to ada\n")
    assert lines_of(folder / "paid.txt") == ["ada 5"]
    assert [each["state"] for each in lines(run("proof", "list", "--json"))] == ["done", "waiting"]


def test_a_call_by_hand_takes_up_no_other_call_than_its_own(folder: Path) -> None:
    by_hand = run_of(run("tools", "call", "pay", '{"to": "ada", "amount": 5}', *THESE).stderr)
    asked = run_of(run("ask", *WITH, "pay ada").stderr)

    other = run("tools", "call", "add", '{"a": 1, "b": 2}', *THESE, "--run", by_hand)
    of_model = run("tools", "call", "pay", '{"to": "ada", "amount": 5}', *THESE, "--run", asked)
    resumed = run("resume", by_hand, *WITH)

    assert (other.exit_code, other.stdout, "nobody was asked about" in other.stderr) == (1, "", True)
    assert (of_model.exit_code, f"handrail resume {asked}" in of_model.stderr) == (1, True)
    assert (resumed.exit_code, f"--run {by_hand}" in resumed.stderr) == (1, True)
    assert lines_of(folder / "paid.txt") == []


def test_on_a_terminal_a_call_by_hand_asks(folder: Path) -> None:
    code, shown = dialogue(["tools", "call", "pay", '{"to": "ada", "amount": 5}', *THESE], ("Allow it?", "y\n"))

    assert (code, lines_of(folder / "paid.txt")) == (0, ["ada 5"])
    assert "paid 5 to ada" in shown


def test_files_are_checked_one_by_one_and_what_is_wrong_has_its_place(folder: Path) -> None:
    configure(folder)
    (folder / "bad.toml").write_text('[invoker]\nname = "x"\npyhton = "a:b"\n')
    (folder / "broken.py").write_text("import nothing_of_that_name\n")

    configured, named = run("tools", "check"), run("tools", "check", "box.toml", "bad.toml", "broken.py", "--json")

    good, bad, broken = lines(named)
    assert (configured.exit_code, configured.stdout.splitlines()[2].split()[1:]) == (0, ["ok", "2", "-"])
    assert (named.exit_code, good["ok"], good["tools"]) == (1, True, 2)
    assert "bad.toml:3: invoker.pyhton: there is no such key; did you mean 'python'?" in bad["problem"]
    assert "No module named 'nothing_of_that_name'" in broken["problem"]


def test_tools_are_found_in_a_file_a_module_or_by_name(folder: Path) -> None:
    (folder / "one.toml").write_text('[invoker]\nname = "sum"\npython = "talk_tools:add"\n')

    names = {
        written: [each["name"] for each in lines(run("tools", "list", "--json", "--tools", written))]
        for written in ("talk_tools.py", "talk_tools", "talk_tools:add", "one.toml", "talk_tools:_held")
    }

    everything = ["add", "pay", "log_in", "count"]
    assert names == {
        "talk_tools.py": everything,
        "talk_tools": everything,
        "talk_tools:add": ["add"],
        "one.toml": ["sum"],
        "talk_tools:_held": ["_held"],
    }
