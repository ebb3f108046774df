"""The Tools view: every tool with how it did so far, and a form to try it that runs it like any other call."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest
from playwright.sync_api import Locator, Page, expect

from tests.desk.page.chat_actions import answered, question, say
from tests.desk.page.conftest import Tab
from tests.desk.page.page_node import WORD, PageNode

PLANS = '''\
"""A tool with a form of every kind."""

import json
from typing import Annotated, Any, Literal, TypedDict

from msgspec import Meta

from handrail import tool


class Place(TypedDict):
    town: str
    floor: int


@tool(side_effects=False)
async def plan(
    title: str,
    priority: Literal["low", "high"],
    hours: Annotated[int, Meta(le=8)],
    tags: list[str],
    place: Place,
    share: float = 0.5,
    urgent: bool = False,
    note: str | None = None,
    extra: Any = None,
) -> str:
    """Plan something.

    Args:
        title: What is planned.
    """
    got = locals()
    return "got " + json.dumps(got, sort_keys=True)
'''


def rows(page: Page) -> Locator:
    return page.get_by_role("listitem").filter(has=page.locator(".tool-name"))


def row(page: Page, tool: str) -> Locator:
    return rows(page).filter(has_text=tool)


def numbers(place: Locator) -> dict[str, str]:
    names, values = place.locator(".numbers dt").all_inner_texts(), place.locator(".numbers dd").all_inner_texts()
    return dict(zip(names, values, strict=True))


def run(page: Page) -> None:
    page.get_by_role("button", name="Run", exact=True).click()


def card(page: Page) -> Locator:
    return page.locator(".trial-answer article")


def test_all_tools_are_listed_and_found_by_words_and_by_ensemble(served: PageNode, tab: Tab) -> None:
    page = tab(served, "#/tools")
    expect(rows(page)).to_have_count(7)
    expect(row(page, "notes:write_note")).to_contain_text("writes")
    expect(row(page, "notes:write_note")).to_contain_text("notes.toml")

    page.get_by_label("Ensemble").select_option("notes")
    expect(rows(page)).to_have_count(2)
    page.get_by_label("Search").fill("note READ")
    expect(rows(page)).to_have_count(1)
    expect(page.get_by_text("1 tool", exact=True)).to_be_visible()

    # Other tools are there now: what the person looks for stays.
    ensemble = served.folder / "notes.toml"
    ensemble.write_text(ensemble.read_text().replace('name = "read_note"', 'name = "read_it"'))
    expect(row(page, "notes:read_it")).to_be_visible()
    expect(page.get_by_label("Search")).to_be_focused()
    expect(page.get_by_label("Search")).to_have_value("note READ")
    ensemble.write_text(ensemble.read_text().replace('name = "read_it"', 'name = "read_note"'))

    row(page, "notes:read_note").get_by_role("link").click()
    expect(page.get_by_role("heading", name="notes:read_note")).to_be_visible()
    expect(page.get_by_role("row", name=re.compile("path"))).to_contain_text("Which one, as shopping.txt.")


@pytest.mark.requirement("hearthnet.telemetry")
def test_what_was_offered_picked_and_failed_and_how_long_it_took_is_shown(served: PageNode, tab: Tab) -> None:
    page = tab(served)
    say(page, "fail")
    answered(page, "It did not work.")
    page.get_by_role("link", name="Tools").click()
    told = row(page, "odd:fail")
    expect(told).to_be_visible()
    assert numbers(told) | {"p50": "", "p95": ""} == {
        "Offered": "2",
        "Picked": "1",
        "Failed": "1",
        "p50": "",
        "p95": "",
    }
    assert re.fullmatch(r"[\d.,]+ (µs|ms|s)", numbers(told)["p50"])
    assert re.fullmatch(r"[\d.,]+ (µs|ms|s)", numbers(told)["p95"])
    expect(told.get_by_role("img")).to_have_accessible_name(re.compile(r"The last call, .+ to .+, 1 failed"))
    # A failed call has a form of its own: it is not told by colour alone.
    expect(told.locator(".bar-failed path")).to_have_count(1)

    other = row(page, "notes:read_note")
    assert numbers(other) == {"Offered": "2", "Picked": "0", "Failed": "0", "p50": "–", "p95": "–"}
    expect(other.get_by_role("img")).to_have_accessible_name("No calls yet")


def test_a_side_effect_in_a_trial_waits_for_approval_and_runs_once_or_not_at_all(served: PageNode, tab: Tab) -> None:
    page = tab(served, "#/tools/notes:write_note")
    page.get_by_label("path").fill("plan.txt")
    page.get_by_label("text").fill("first\nsecond")
    run(page)
    expect(question(page)).to_contain_text("first\\nsecond")
    assert not (served.kept / "plan.txt").exists()
    question(page).get_by_role("button", name="Allow once").click()
    expect(card(page)).to_contain_text("wrote 12 characters to plan.txt")
    assert (served.kept / "plan.txt").read_text() == "first\nsecond"
    # What is known of its use is renewed.
    expect(page.locator(".outcomes")).to_contain_text("ok 1")

    page.get_by_label("text").fill("never")
    run(page)
    question(page).get_by_role("button", name="Deny", exact=True).click()
    expect(card(page)).to_have_attribute("data-state", "denied")
    assert (served.kept / "plan.txt").read_text() == "first\nsecond"


def test_a_trial_can_be_stopped(served: PageNode, tab: Tab) -> None:
    page = tab(served, "#/tools/odd:long_job")
    expect(page.get_by_label("steps")).to_have_value("3")
    run(page)
    served.gate.step()
    expect(card(page)).to_contain_text("step 2 of 3")
    page.get_by_role("button", name="Stop").click()
    served.gate.gone()
    expect(page.get_by_text("Stopped. What it already did is not reversed.")).to_be_visible()
    expect(card(page)).to_have_attribute("data-state", "stopped")


def test_a_trial_goes_on_without_a_page_and_is_there_for_who_comes_back(served: PageNode, tab: Tab) -> None:
    page = tab(served, "#/tools/odd:long_job")
    run(page)
    served.gate.step()
    expect(card(page)).to_contain_text("step 2 of 3")
    page.get_by_role("link", name="All tools").click()
    expect(rows(page).first).to_be_visible()
    page.go_back()
    expect(card(page)).to_contain_text("step 2 of 3")
    expect(page.get_by_text("It continues when you leave this view")).to_be_visible()
    other = tab(served, "#/tools/odd:long_job")  # whoever looks, looks at the same one
    expect(card(other)).to_contain_text("step 2 of 3")
    other.close()
    page.goto("about:blank")
    served.gate.step(2)
    served.gate.gone()

    page = tab(served, "#/tools/odd:long_job")
    expect(card(page)).to_have_attribute("data-state", "ok")
    expect(page.get_by_role("button", name="Run", exact=True)).to_be_enabled()


def test_a_long_result_is_said_to_be_cut_and_its_proof_has_all_of_it(served: PageNode, tab: Tab) -> None:
    page = tab(served, "#/tools/odd:huge")
    run(page)
    expect(card(page)).to_have_attribute("data-state", "ok")
    card(page).locator("summary").click()
    expect(card(page).locator(".card-note")).to_have_text(re.compile(r"The whole text has 1,\d+,\d+ characters"))
    card(page).get_by_role("link", name="Show in Proof").click()
    expect(page.get_by_text("odd:huge").first).to_be_visible()
    expect(page).to_have_url(re.compile(r"#/proof/run_"))


def test_a_secret_is_written_unseen_and_shown_nowhere(served: PageNode, tab: Tab) -> None:
    page = tab(served, "#/tools/odd:sign_in")
    page.get_by_label("user").fill("ada")
    field = page.get_by_label("password")
    expect(field).to_have_attribute("type", "password")
    field.fill(WORD)
    run(page)
    expect(question(page)).to_be_visible()
    question(page).get_by_role("button", name="Allow once").click()
    expect(card(page)).to_contain_text("ada is signed in")
    card(page).locator("summary").click()
    assert WORD not in page.locator("body").inner_text()


# ── a form of every kind ──


@pytest.fixture
def planner(house: PageNode) -> Iterator[PageNode]:
    """With one more tool, whose form has every kind of field."""
    name = f"plans_{house.folder.parent.name.replace('-', '_')}"
    (house.folder / f"{name}.py").write_text(PLANS, encoding="utf-8")
    ensemble = f'[ensemble]\nname = "plans"\n\n[[invokers]]\nname = "plan"\npython = "{name}:plan"\n'
    (house.folder / "plans.toml").write_text(ensemble, encoding="utf-8")
    text = house.config.read_text(encoding="utf-8")
    house.config.write_text(text.replace('"odd.toml"]', '"odd.toml", "plans.toml"]'), encoding="utf-8")
    with house.serve():
        yield house


def fill_in(page: Page, **changed: str) -> None:
    given = {"title": "Move\nhouse", "hours": "3", "town": "Graz", "floor": "2", **changed}
    for name, value in given.items():
        page.get_by_label(name, exact=False).first.fill(value)
    page.get_by_label("priority").select_option("high")
    page.get_by_role("group", name="tags").get_by_role("button", name="Add").click()
    page.get_by_label("tags 1").first.fill("boxes")


def got(page: Page) -> dict[str, Any]:
    expect(card(page)).to_contain_text("got {")
    card(page).locator("summary").click()
    text = card(page).locator(".long").last.text_content() or ""
    found: dict[str, Any] = json.loads(text.removeprefix("got "))
    return found


def test_every_kind_of_field_gives_its_value_and_what_the_node_refuses_is_said_beside_it(
    planner: PageNode, tab: Tab
) -> None:
    page = tab(planner, "#/tools/plans:plan")
    fill_in(page)
    page.get_by_label("urgent").select_option("yes")
    page.get_by_label("extra").fill('{"a": [1, null]}')
    run(page)
    assert got(page) == {
        "title": "Move\nhouse",
        "priority": "high",
        "hours": 3,
        "tags": ["boxes"],
        "place": {"town": "Graz", "floor": 2},
        "share": 0.5,
        "urgent": True,
        "note": None,
        "extra": {"a": [1, None]},
    }

    hours = page.get_by_label("hours")
    hours.fill("9")
    run(page)
    expect(hours).to_have_attribute("aria-invalid", "true")
    expect(hours).to_be_focused()
    expect(hours).to_have_accessible_description(re.compile("8"))
    expect(page.locator("[aria-invalid]")).to_have_count(1)

    hours.fill("eight")
    run(page)
    expect(hours).to_have_accessible_description(re.compile("This is not a number."))

    hours.fill("8")
    run(page)
    assert got(page)["hours"] == 8
    expect(page.locator("[aria-invalid]")).to_have_count(0)


def test_a_number_is_run_with_the_digits_that_were_written_or_not_at_all(planner: PageNode, tab: Tab) -> None:
    large = 2**53 + 1
    page = tab(planner, "#/tools/plans:plan")
    fill_in(page, floor=str(large))
    page.get_by_label("hours").fill("1,000")
    run(page)
    expect(page.get_by_label("hours")).to_have_accessible_description(re.compile("This is not a number."))
    page.get_by_label("hours").fill("1")
    run(page)
    assert got(page)["place"]["floor"] == large

    page.get_by_role("button", name="Write JSON instead").click()
    text = page.get_by_label("Arguments as JSON")
    assert json.loads(text.input_value())["place"]["floor"] == large
    text.fill(text.input_value().replace('"hours": 1', '"hours": 1, "hours": 2'))
    run(page)
    expect(page.get_by_text("'hours' occurs twice").first).to_be_visible()


def test_the_same_can_be_written_as_json_and_turned_back_into_the_form(planner: PageNode, tab: Tab) -> None:
    page = tab(planner, "#/tools/plans:plan")
    fill_in(page)
    page.get_by_role("button", name="Write JSON instead").click()
    text = page.get_by_label("Arguments as JSON")
    given = json.loads(text.input_value())
    assert (given["hours"], given["tags"], given["place"]) == (3, ["boxes"], {"town": "Graz", "floor": 2})
    text.fill("{")
    run(page)
    expect(page.get_by_text("This is not JSON.")).to_be_visible()
    text.fill(json.dumps({**given, "hours": 4, "tags": ["a", "b"]}))
    page.get_by_role("button", name="Back to the form").click()
    expect(page.get_by_label("hours")).to_have_value("4")
    page.get_by_role("button", name="Remove tags 1").click()
    run(page)
    assert got(page)["tags"] == ["b"]


def test_a_schema_that_contains_itself_and_one_with_endless_choices_still_make_a_form(
    served: PageNode, tab: Tab
) -> None:
    branches = {f"branch_{at}": {"$ref": "#"} for at in range(20)}
    endless = {"type": "object", "properties": branches, "required": sorted(branches)}
    words = {"type": "object", "properties": {"word": {"enum": [f"w{at}" for at in range(5_000)]}}}
    page = tab(served, "#/tools")
    found = page.evaluate(
        """async (schemas) => {
          const { schemaForm } = await import("/page/views/tools/form.js");
          const made = schemas.map((schema) => schemaForm(schema).node);
          const fields = made.map((form) => form.querySelectorAll("input, textarea, select").length);
          return { fields, words: made.at(-1).textContent };
        }""",
        [endless, words],
    )
    assert 200 <= found["fields"][0] < 500
    assert found["fields"][1] == 1
    assert found["words"] == 'word"w0" | "w1" | "w2" | "w3" | "w4" | "w5" | "w6" | "w7" | …'


FORM = {
    "$ref": "#/$defs/all",
    "$defs": {
        "all": {
            "type": "object",
            "properties": {
                "sizes": {"type": "array", "items": {"type": "integer"}},
                "rows": {
                    "type": "array",
                    "items": {"type": "object", "properties": {"x": {"type": "array", "items": {"type": "string"}}}},
                },
                "either": {"oneOf": [{"type": "string"}, {"type": "integer"}]},
                "level": {"type": ["string", "null"], "enum": ["low", None]},
                "kept": {"anyOf": [{"type": "object", "properties": {"a": {"type": "string"}}}, {"type": "null"}]},
                "constructor": {"type": "object"},
                "line": {"type": "string", "maxLength": 20, "default": "a\nb"},
                "large": {"type": "integer", "default": 2**53 + 1},
            },
            "required": ["sizes", "rows", "either", "level", "kept"],
        }
    },
}


def test_what_is_written_in_a_form_stays_when_an_item_before_it_goes_and_says_its_new_place(
    served: PageNode, tab: Tab
) -> None:
    page = tab(served, "#/tools")
    expect(rows(page)).to_have_count(7)
    page.evaluate(
        """async ([schema, given]) => {
          const { schemaForm } = await import("/page/views/tools/form.js");
          globalThis.form = schemaForm(schema, { given });
          document.querySelector("main").replaceChildren(form.node);
        }""",
        [FORM, {"sizes": [1, 2, 3], "rows": [{"x": ["a"]}, {"x": ["b"]}]}],
    )
    page.get_by_label("sizes 2").first.fill("two")
    page.get_by_role("button", name="Remove sizes 1").click()
    page.get_by_role("button", name="Remove rows 1", exact=True).click()
    expect(page.get_by_label("sizes 1").first).to_have_value("two")
    assert page.evaluate("form.read()") is None
    expect(page.get_by_label("sizes 1").first).to_be_focused()
    page.get_by_label("sizes 1").first.fill("2")
    page.get_by_label("either").fill('"x"')
    page.get_by_label("level").select_option("null")
    assert page.evaluate("form.read()") == {
        "sizes": [2, 3],
        "rows": [{"x": ["b"]}],
        "either": "x",
        "level": None,
        "kept": None,
        "line": "a\nb",
    }

    page.evaluate("""form.refused("invalid_arguments: sizes[1]: expected less; rows[0].x[0]: expected more")""")
    expect(page.get_by_label("sizes 2").first).to_have_accessible_description(re.compile("expected less"))
    expect(page.locator("[aria-invalid]")).to_have_count(2)
    schemas = [{"type": "object", "additionalProperties": {"type": "string"}}, {"type": "object", "properties": {}}]
    found = page.evaluate(
        """async (schemas) => {
          const { nameless } = await import("/page/views/tools/schema.js");
          return schemas.map(nameless);
        }""",
        schemas,
    )
    assert found == [True, False]
