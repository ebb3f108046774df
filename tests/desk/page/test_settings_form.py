"""The configuration as fields: a change is made in its place in the text, and seen before it is saved."""

from __future__ import annotations

import re

from playwright.sync_api import Locator, Page, expect

from handrail.config.catalogue import TABLES
from tests.desk.page.conftest import Tab
from tests.desk.page.page_node import PageNode
from tests.desk.page.test_translations import words

HEAD = "# The house.\n\n"
MORE = """
# How far.
[limits]
iterations = 4   # enough
tokens = [1]
on_limit = "stop"

[models.far]
provider = "openai"
key = "env:HOUSE_FAR_KEY"
"""


def field(page: Page, name: str) -> Locator:
    return page.locator(".setting").filter(has=page.get_by_text(name, exact=True))


def opened(page: Page) -> None:
    expect(page.locator(".setting")).not_to_have_count(0)
    page.evaluate("document.querySelectorAll('.setting-group').forEach((group) => (group.open = true))")


def draft(page: Page) -> str:
    return page.locator("#config-text").input_value()


def test_a_field_changes_its_place_in_the_text_and_nothing_is_written_before_it_was_seen(
    served: PageNode, tab: Tab
) -> None:
    before = HEAD + served.config.read_text() + MORE
    served.config.write_text(before)
    page = tab(served, "#/settings", viewport={"width": 360, "height": 740})
    opened(page)
    iterations = field(page, "iterations").get_by_role("textbox", name="iterations")
    expect(iterations).to_have_value("4")
    expect(field(page, "iterations")).to_contain_text("In the file")
    expect(field(page, "iterations")).to_contain_text("By default: 6")
    expect(field(page, "calls_per_turn")).to_contain_text("Not in the file. By default: 32")
    expect(field(page, "tokens")).to_contain_text("only be edited as text")
    expect(field(page, "tokens").get_by_role("textbox")).to_be_disabled()
    far = page.get_by_role("group", name="[models.far]")
    expect(far.locator(".setting").filter(has=page.get_by_label("key"))).to_contain_text("HOUSE_FAR_KEY is not set")

    iterations.fill("5")
    iterations.press("Tab")
    expect(page.locator("#config-text")).to_have_value(before.replace("iterations = 4 ", "iterations = 5 "))
    expect(field(page, "iterations").get_by_role("button", name=re.compile("Line"))).to_be_focused()
    field(page, "on_limit").get_by_role("combobox").select_option("error")
    wanted = before.replace("iterations = 4 ", "iterations = 5 ").replace('"stop"', '"error"')
    expect(page.locator("#config-text")).to_have_value(wanted)
    field(page, "tokens").get_by_role("button", name=re.compile("Line")).click()
    expect(page.locator("#config-text")).to_be_focused()
    assert page.evaluate("getSelection().toString()") == "tokens = [1]"
    page.locator("#config-text").fill(wanted.replace("tokens = [1]\n", ""))
    page.get_by_role("tab", name="Fields").click()

    # What is typed and not left yet is a part of what is saved.
    field(page, "tokens").get_by_role("textbox").fill("7000")
    page.get_by_role("button", name="Save", exact=True).click()
    seen = page.get_by_role("dialog", name="What will change")
    expect(seen.locator("del")).to_have_text(
        ["-iterations = 4   # enough\n", "-tokens = [1]\n", '-on_limit = "stop"\n']
    )
    expect(seen.locator("ins")).to_have_text(
        ["+iterations = 5   # enough\n", '+on_limit = "error"\n', "+tokens = 7000\n"]
    )
    assert served.config.read_text() == before
    page.get_by_role("button", name="Write it to the file").click()
    expect(page.get_by_text("Saved, and in use.")).to_be_visible()
    assert served.config.read_text() == wanted.replace("tokens = [1]\n", "").replace(
        '"error"', '"error"\ntokens = 7000'
    )
    assert page.evaluate("document.documentElement.scrollWidth") == 360


def test_a_mistake_is_told_at_its_field_and_what_the_text_does_not_allow_leads_to_its_line(
    served: PageNode, tab: Tab
) -> None:
    before = served.config.read_text().replace('"odd.toml"]', '# why\n  "odd.toml"]')
    served.config.write_text(before)
    page = tab(served, "#/settings")
    opened(page)
    port = field(page, "port").get_by_role("textbox")
    port.fill("many")
    port.press("Enter")
    expect(field(page, "port").get_by_role("alert")).to_contain_text("This is not a number.")
    assert draft(page) == before
    port.fill("80 or so")
    page.get_by_role("button", name="Save", exact=True).click()
    expect(page.locator(".editor-state")).to_contain_text("This is not a number.")
    expect(port).to_have_value("80 or so")
    port.fill("70000")
    port.press("Enter")
    expect(field(page, "port").get_by_role("alert")).to_contain_text("must be 65535 or less")
    expect(port).to_have_attribute("aria-invalid", "true")
    expect(page.get_by_role("button", name="Save", exact=True)).to_be_disabled()
    field(page, "port").get_by_role("button", name="Use the default: node.port").click()
    expect(port).to_be_focused()
    expect(port).not_to_have_attribute("aria-invalid", "true")
    assert draft(page) == before.rstrip() + "\n\n[node]\n"

    files = field(page, "ensembles").get_by_role("textbox")
    files.fill("notes.toml")
    files.press("Tab")
    expect(field(page, "ensembles").get_by_role("alert")).to_contain_text("change it there")
    page.get_by_role("button", name="Discard changes").click()
    page.get_by_role("dialog").get_by_role("button", name="Discard changes").click()
    expect(files).to_have_value("notes.toml\nodd.toml")
    page.get_by_role("tab", name="Fields").press("ArrowRight")
    expect(page.get_by_role("tab", name="As text")).to_be_focused()
    expect(page.locator("#config-text")).to_have_value(before)
    page.locator("#config-text").fill("x = ")
    page.get_by_role("tab", name="As text").press("Home")
    expect(page.get_by_text("The file cannot be parsed, so there are no fields.")).to_be_visible()


def test_what_cannot_be_in_the_text_is_never_passed_over_by_saving_the_rest(served: PageNode, tab: Tab) -> None:
    served.config.write_text(served.config.read_text() + "\n[limits]\ncalls_per_turn = 4\ntokens = 7000\n")
    page = tab(served, "#/settings")
    opened(page)
    calls = field(page, "calls_per_turn").get_by_role("textbox")
    calls.fill("a few")
    calls.press("Tab")
    tokens = field(page, "tokens").get_by_role("textbox")
    tokens.fill("8000")
    tokens.press("Tab")
    expect(page.locator("#config-text")).to_have_value(re.compile("tokens = 8000"))
    for _ in range(2):
        page.get_by_role("tab", name="As text").click()
        page.get_by_role("button", name="Save", exact=True).click()
        expect(page.locator(".editor-state")).to_contain_text("This is not a number.")
        expect(calls).to_be_focused()
    field(page, "calls_per_turn").get_by_role("button", name="Use the default").click()
    expect(calls).to_have_value("")
    expect(calls).not_to_have_attribute("aria-invalid", "true")
    page.get_by_role("button", name="Save", exact=True).click()
    seen = page.get_by_role("dialog", name="What will change")
    expect(seen.locator("del")).to_have_text(["-calls_per_turn = 4\n", "-tokens = 7000\n"])


def test_a_field_that_is_left_with_the_view_comes_back_with_it_and_a_look_ends_with_it(
    served: PageNode, tab: Tab
) -> None:
    before = served.config.read_text()
    page = tab(served, "#/settings")
    opened(page)
    field(page, "calls_per_turn").get_by_role("textbox").fill("5")
    page.get_by_role("link", name="Tools").click()
    expect(page.get_by_role("heading", name="Tools", exact=True)).to_be_visible()
    page.get_by_role("link", name="Settings").click()
    expect(page.locator("#config-text")).to_have_value(re.compile("calls_per_turn = 5"))
    page.get_by_role("button", name="Save", exact=True).click()
    expect(page.get_by_role("dialog", name="What will change")).to_be_visible()
    page.go_back()
    expect(page.get_by_role("heading", name="Tools", exact=True)).to_be_visible()
    expect(page.get_by_role("dialog")).to_have_count(0)
    assert served.config.read_text() == before


def test_every_setting_that_a_file_can_have_is_explained_in_both_languages() -> None:
    groups = {f"fields.group.{'.'.join(table.path) or 'top'}" for table in TABLES}
    settings = {
        ".".join(("fields", *table.path, key))
        for table in TABLES
        for key, kind in table.kinds.items()
        if kind.form != "table"
    }
    for language in ("en", "de"):
        assert set(words("fields")[language]) == groups | settings
