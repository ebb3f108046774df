"""`handrail probe`: the same forty cases to every model, judged by the validator that every call goes through."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from handrail.cli.probe.cases import ProbeCase, load_suite
from handrail.cli.probe.judge import probe_model
from handrail.core.events import ModelEvent, TextDelta
from handrail.core.model_request import ModelRequest
from handrail.sessions.llm import LLM
from handrail.testing.clock import FixedClock
from handrail.testing.model import ScriptedModel, call, text
from tests.cli.journal_fixtures import lines, run

SUITE = load_suite()
KINDS = ("choose", "arguments", "none", "several", "error")


def right_calls(case: ProbeCase) -> list[dict[str, Any]]:
    """The calls that a model should make. Where only the choice is judged, any arguments that fit."""
    return [{"name": each.tool, "arguments": _right(each.tool, each.arguments)} for each in case.calls]


def _right(tool: str, wanted: dict[str, list[Any]] | None) -> dict[str, Any]:
    if wanted is not None:
        return {name: values[0] for name, values in wanted.items()}
    facts = SUITE.tools[tool]
    return {name: _any(facts.properties[name]) for name in facts.required}


def _any(schema: dict[str, Any]) -> Any:
    if "pattern" in schema:
        return "EUR"
    return schema.get("enum", [{"string": "words", "integer": 10, "number": 50}[schema["type"]]])[0]


def write_script(path: Path, replies: list[dict[str, Any]]) -> str:
    path.write_text(json.dumps({"name": path.stem, "reply": replies}))
    return f"scripted:{path}"


def good_script(folder: Path) -> str:
    """A model that does everything right: calls in one reply, then a word."""
    replies: list[dict[str, Any]] = []
    for case in SUITE.case:
        # After an error the model has spoken once already in this turn.
        before = [{"when": case.say, "text": "(before)"}] if case.before else []
        replies += [*before, {"when": case.say, "text": "", "calls": right_calls(case)}]
        replies += [{"when": case.say, "text": "Done."}]
    return write_script(folder / "good.json", replies)


def bad_script(folder: Path) -> str:
    """A model that always calls the same, with arguments that do not fit."""
    wrong = [{"name": "set_timer", "arguments": '{"minutes": "soon"'}, {"name": "sing", "arguments": {}}]
    replies = [{"when": case.say, "calls": wrong} for case in SUITE.case for _ in range(4)]
    return write_script(folder / "bad.json", replies)


def test_the_suite_is_forty_cases_of_five_kinds_whose_right_calls_fit_their_tools() -> None:
    tools = SUITE.registered()

    assert len(SUITE.case) == len({case.id for case in SUITE.case}) == len({case.say for case in SUITE.case}) == 40
    assert {kind: sum(case.kind == kind for case in SUITE.case) for kind in KINDS} == dict.fromkeys(KINDS, 8)
    for case in SUITE.case:
        assert bool(case.calls) == (case.kind != "none")
        assert bool(case.before) == (case.kind == "error")
        for made in right_calls(case):
            assert tools.find(made["name"]).validator.problems(made["arguments"]) == []


@pytest.mark.requirement("hearthnet.probe")
def test_the_same_prompts_go_to_every_model_and_a_table_says_how_well_formed_its_calls_are(folder: Path) -> None:
    good, bad = good_script(folder), bad_script(folder)

    result = run("probe", good, bad)

    heading, first, second = result.stdout.splitlines()
    assert result.exit_code == 0
    assert heading.split("  ")[0] == "MODEL"
    assert first.split()[1:-2] == ["40/40", "40/40", "32/32", "24/24", "8/8"]
    assert second.split()[1:-2] == ["0/40", "0/40", "0/32", "0/24", "0/8"]


@pytest.mark.requirement("hearthnet.probe")
def test_in_json_each_model_is_a_line_with_every_case(folder: Path) -> None:
    (told,) = lines(run("probe", good_script(folder), "--json"))

    assert (told["right"], told["cases"], told["well_formed"]) == (40, 40, {"so": 40, "asked": 40})
    assert [each["case"] for each in told["verdicts"]] == [case.id for case in SUITE.case]
    assert all(each["right"] for each in told["verdicts"])


def test_without_names_every_configured_model_is_asked(folder: Path) -> None:
    good, bad = good_script(folder), bad_script(folder)
    models = [f'[models.{name}]\nprovider = "scripted"\nmodel = "{path.partition(":")[2]}"\n' for name, path in
              (("one", good), ("two", bad))]  # fmt: skip
    (folder / "handrail.toml").write_text('default_model = "two"\n' + "".join(models))

    told = lines(run("probe", "--json", "--kind", "none"))

    assert [(each["model"], each["cases"]) for each in told] == [("two", 8), ("one", 8)]


def test_failures_say_what_was_done_and_why_it_is_wrong(folder: Path) -> None:
    result = run("probe", bad_script(folder), "--kind", "choose", "--failures")

    assert result.stderr.count("choose-") == 8
    assert "the arguments are not a JSON object" in result.stderr
    assert "Tool 'sing' not found" in result.stderr


def test_a_model_that_cannot_be_asked_is_a_problem_and_the_others_are_asked(folder: Path) -> None:
    result = run("probe", "scripted:none.json", good_script(folder), "--kind", "choose")

    assert result.exit_code == 1
    assert "8/8" in result.stdout
    assert "did not finish the cases: the script" in result.stderr


@pytest.mark.parametrize(
    ("case", "replies", "tool", "arguments"),
    [
        ("arguments-city", [[call("get_weather", city="lisbon.")]], True, True),
        ("arguments-city", [[call("get_weather", city="Lisbon", unit="celsius")]], True, True),
        ("arguments-city", [[call("get_weather", city="Lisbon", unit="fahrenheit")]], True, False),
        ("arguments-city", [[call("get_weather", city="Porto")]], True, False),
        ("arguments-city", [[call("get_time", city="Lisbon")]], False, False),
        ("arguments-city", [[text("It is sunny.")]], False, False),
        ("several-timers", [[call("set_timer", minutes=12)], [call("set_timer", minutes=5)]], True, True),
        ("several-timers", [[call("set_timer", minutes=5), call("set_timer", minutes=5)], [text("")]], True, False),
        ("several-timers", [[call("set_timer", minutes=5)], [text("Done.")]], False, False),
    ],
)
async def test_calls_are_judged_strictly(
    case: str, replies: list[list[ModelEvent]], tool: bool, arguments: bool
) -> None:
    one = type(SUITE)(SUITE.tools, tuple(each for each in SUITE.case if each.id == case))

    score = await probe_model("model", LLM(ScriptedModel(*replies)), one, clock=FixedClock(0))

    (verdict,) = score.verdicts
    assert (verdict.well_formed, verdict.right_tool, verdict.right_arguments) == (True, tool, arguments)


async def test_a_reply_that_is_cut_off_is_not_well_formed_and_not_a_right_refusal() -> None:
    class Broken:
        name = "broken"

        async def stream(self, request: ModelRequest) -> Any:
            yield TextDelta(text="I ")

    one = type(SUITE)(SUITE.tools, tuple(each for each in SUITE.case if each.id == "none-hello"))

    (verdict,) = (await probe_model("model", LLM(Broken()), one, clock=FixedClock(0))).verdicts

    assert (verdict.well_formed, verdict.no_tool) == (False, False)
    assert "ended without saying" in verdict.problem
