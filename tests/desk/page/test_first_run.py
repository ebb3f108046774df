"""The first look: an empty conversation says what may be asked, what the model can do, and which tools there are."""

from __future__ import annotations

from playwright.sync_api import expect

from tests.desk.page.chat_actions import answered, box, card, say
from tests.desk.page.conftest import Tab
from tests.desk.page.page_node import PageNode


def test_an_example_made_of_a_tool_fills_the_composer_with_the_first_place_to_fill_selected(
    served: PageNode, tab: Tab
) -> None:
    page = tab(served)
    examples = page.get_by_role("list", name="Examples").get_by_role("button")
    expect(examples).to_have_count(4)
    expect(examples.first).to_have_attribute("title", "odd:long_job")
    page.get_by_role("button", name="Read a note: path = …").click()
    expect(box(page)).to_have_value("Read a note: path = …")
    expect(box(page)).to_be_focused()
    page.keyboard.type("shopping.txt")
    expect(box(page)).to_have_value("Read a note: path = shopping.txt")


def test_the_first_look_the_picker_and_the_tools_view_count_the_same_tools(served: PageNode, tab: Tab) -> None:
    page = tab(served)
    expect(page.get_by_text("7 tools are available.")).to_be_visible()
    expect(page.locator("summary.picker")).to_contain_text("7 tools")
    page.get_by_text("Which tools?").click()
    expect(page.get_by_role("link", name="write_note")).to_be_visible()
    page.get_by_role("link", name="Tools", exact=True).click()
    expect(page.get_by_text("notes:write_note")).to_be_visible()
    expect(page.get_by_role("main").get_by_text("7 tools", exact=True)).to_be_visible()


def test_a_single_tool_is_switched_off_and_the_model_cannot_call_it_until_it_is_on_again(
    served: PageNode, tab: Tab
) -> None:
    page = tab(served)
    page.locator("summary.picker").click()
    page.get_by_label("Single tools of notes").click()
    page.get_by_role("checkbox", name="notes:read_note").uncheck()
    expect(page.locator("summary.picker")).to_contain_text("6 tools")
    say(page, "read the note")
    answered(page, "You need bread, milk and tea.")  # the scripted model says so whatever came of the call
    expect(card(page, "read_note")).to_contain_text("Not permitted.")
    page.reload()
    expect(page.locator("summary.picker")).to_contain_text("6 tools")
