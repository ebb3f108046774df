"""The Settings view: what this browser keeps, the standing rules, and the configuration, never lost by a slip."""

from __future__ import annotations

import re

from playwright.sync_api import Locator, Page, expect

from tests.desk.page.chat_actions import question
from tests.desk.page.conftest import Tab
from tests.desk.page.page_node import PageNode


def text(page: Page) -> Locator:
    return page.get_by_label("Text of the configuration")


def save(page: Page) -> Locator:
    return page.get_by_role("button", name="Save", exact=True)


def as_text(page: Page) -> None:
    page.get_by_role("tab", name="As text").click()


def write(page: Page) -> None:
    """Save, after a look at what will change."""
    save(page).click()
    page.get_by_role("button", name="Write it to the file").click()


def test_a_mistake_is_said_with_its_line_as_one_types_and_only_what_has_none_is_saved_and_used(
    served: PageNode, tab: Tab
) -> None:
    page = tab(served, "#/settings")
    as_text(page)
    before = served.config.read_text()
    expect(text(page)).to_have_value(before)
    expect(save(page)).to_be_disabled()
    text(page).fill(before + "\n[limits]\niterations = \n")
    line = before.count("\n") + 3
    expect(page.locator(".editor-state")).to_contain_text(f"Line {line}")
    expect(page.locator(".line-numbers mark")).to_have_text(str(line))
    expect(save(page)).to_be_disabled()
    page.get_by_role("button", name=f"Line {line}").click()
    assert page.evaluate("getSelection().toString()") == "iterations = "
    assert served.config.read_text() == before

    wanted = before + "\n[limits]\niterations = 5\n"
    text(page).fill(wanted)
    expect(page.get_by_text("No mistakes.")).to_be_visible()
    write(page)
    expect(page.get_by_text("Saved, and in use.")).to_be_visible()
    assert served.config.read_text() == wanted
    limits = page.locator(".config details").filter(has=page.locator("summary", has_text="limits"))
    limits.locator("summary").click()
    expect(limits).to_contain_text(re.compile(r"iterations\s*5"))


def test_a_file_that_somebody_else_changed_is_not_overwritten_unasked(served: PageNode, tab: Tab) -> None:
    page = tab(served, "#/settings")
    as_text(page)
    before = served.config.read_text()
    expect(text(page)).to_have_value(before)
    theirs = before + "\n# theirs\n"
    served.config.write_text(theirs)
    text(page).fill(before + "\n# mine\n")
    expect(page.get_by_text("No mistakes.")).to_be_visible()
    write(page)
    expect(page.get_by_text("The file was changed elsewhere meanwhile.")).to_be_visible()
    assert served.config.read_text() == theirs
    expect(text(page)).to_have_value(before + "\n# mine\n")
    page.get_by_role("button", name="Use the other version").click()
    expect(text(page)).to_have_value(theirs)

    served.config.write_text(before + "\n# theirs again\n")
    text(page).fill(before + "\n# mine again\n")
    write(page)
    page.get_by_role("button", name="Keep my text and save over it").click()
    expect(page.get_by_role("dialog", name="What will change").locator("del")).to_have_text("-# theirs again\n")
    page.get_by_role("button", name="Write it to the file").click()
    expect(page.get_by_text("Saved, and in use.")).to_be_visible()
    assert served.config.read_text() == before + "\n# mine again\n"


def test_a_standing_rule_is_listed_and_can_be_taken_back(served: PageNode, tab: Tab) -> None:
    page = tab(served, "#/tools/notes:write_note")

    def write() -> None:
        page.get_by_label("path").fill("plan.txt")
        page.get_by_label("text").fill("rest")
        page.get_by_role("button", name="Run", exact=True).click()

    write()
    question(page).get_by_role("button", name="Always allow").click()
    question(page).locator(".word-panel").get_by_role("button").last.click()
    expect(page.locator(".trial-answer article")).to_contain_text("wrote 4 characters")
    page.get_by_role("link", name="Settings").click()
    rules = page.get_by_role("region", name="Standing rules").get_by_role("listitem")
    expect(rules).to_have_count(1)
    expect(rules).to_contain_text("allow notes:write_note@sha256:")
    rules.get_by_role("button", name=re.compile("Remove")).click()
    expect(page.get_by_text("None. “Always” in a confirmation dialog adds one.")).to_be_visible()

    page.evaluate("location.hash = '#/tools/notes:write_note'")
    write()
    expect(question(page)).to_be_visible()


def test_language_and_colours_are_chosen_and_kept_and_what_is_written_stays(served: PageNode, tab: Tab) -> None:
    page = tab(served, "#/settings", color_scheme="light")
    page.get_by_role("combobox", name="Colours").select_option("Dark")
    expect(page.locator("html")).to_have_attribute("data-theme", "dark")
    as_text(page)
    unsaved = f"{served.config.read_text()}# more\n"
    text(page).fill(unsaved)
    page.get_by_role("combobox", name="Language").select_option("Deutsch")
    expect(page.get_by_role("heading", name="Einstellungen")).to_be_visible()
    expect(page.locator("#config-text")).to_have_value(unsaved)
    expect(page.get_by_role("button", name="Speichern")).to_be_enabled()
    page.reload()
    expect(page.locator("#config-text")).to_have_value(served.config.read_text())
    expect(page.get_by_role("heading", name="Einstellungen")).to_be_visible()
    expect(page.locator("html")).to_have_attribute("data-theme", "dark")
    page.get_by_role("combobox", name="Farben").select_option("Wie das System")
    expect(page.locator("html")).not_to_have_attribute("data-theme", re.compile(".*"))


def test_a_file_with_a_secret_in_it_can_be_read_without_it_and_not_changed(served: PageNode, tab: Tab) -> None:
    key = "sk-" + "a1b2c3d4" * 4
    served.config.write_text(f'{served.config.read_text()}\n[models.far]\nprovider = "openai"\nkey = "{key}"\n')
    page = tab(served, "#/settings")
    as_text(page)
    expect(text(page)).to_have_value(re.compile(r"key = .\[redacted\]"))
    expect(text(page)).not_to_be_editable()
    expect(save(page)).to_have_count(0)
    expect(page.get_by_text("it holds what looks like a secret")).to_be_visible()
    assert key not in page.content()


def test_a_token_that_is_forgotten_is_in_no_tab(served: PageNode, tab: Tab) -> None:
    page = tab(served, "#/settings")
    expect(page.get_by_text("It came with the address that you opened.")).to_be_visible()
    other = tab(served, "#/settings", token="", beside=page)
    expect(other.get_by_text("It came from another tab of this page.")).to_be_visible()
    page.get_by_role("button", name="Forget the token on this device").click()
    page.get_by_role("button", name="Forget it").click()
    for each in (page, other):
        expect(each.get_by_role("textbox", name="Token")).to_be_visible()
        assert each.evaluate("sessionStorage.length") == 0
