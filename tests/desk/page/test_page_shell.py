"""The frame around the views: ways, keys, language, colours, the node that goes and comes, news from elsewhere."""

from __future__ import annotations

from typing import Literal

import pytest
from playwright.sync_api import Page, expect

from tests.desk.page.chat_actions import use_conversation_menu
from tests.desk.page.conftest import Tab
from tests.desk.page.page_node import PageNode

COLOURS = """
() => {
  const of = (selector, ...names) => names.map((name) => getComputedStyle(document.querySelector(selector))[name]);
  return [...of("body", "backgroundColor", "color"), ...of("#top", "backgroundColor"), ...of("h1", "color"),
    ...of("button.language", "color")];
}
"""
"""What the browser paints."""
VIEWS = ("Chat", "Tools", "Proof", "Network", "Settings")


def test_every_view_is_reached_by_its_link_and_by_its_key(served: PageNode, tab: Tab) -> None:
    page = tab(served, "#/nowhere")
    expect(page.get_by_role("alert")).to_have_text("There is no such page.")
    for number, name in enumerate(VIEWS, 1):
        page.get_by_role("navigation", name="Views").get_by_role("link", name=name).click()
        _is_at(page, name)
        page.keyboard.press(f"Alt+{number % len(VIEWS) + 1}")
        _is_at(page, VIEWS[number % len(VIEWS)])


def _is_at(page: Page, name: str) -> None:
    expect(page.locator("nav [aria-current=page]")).to_have_text(name)
    expect(page.locator(f"main .view-{name.lower()}")).to_be_visible()


def test_a_view_that_cannot_be_loaded_says_so_and_comes_when_it_is_asked_for_again(served: PageNode, tab: Tab) -> None:
    page = tab(served, allow=("ERR_FAILED",))
    page.route("**/views/network/network.js", lambda route: route.abort())
    page.get_by_role("link", name="Network").click()
    expect(page.get_by_role("alert")).to_contain_text("This view could not be shown")
    page.unroute("**/views/network/network.js")
    page.get_by_role("button", name="Try again").click()
    expect(page.locator("main .view-network")).to_be_visible()


def test_language_and_colours_are_switched_in_the_head_and_kept(served: PageNode, tab: Tab) -> None:
    page = tab(served, "#/settings", color_scheme="light")
    page.get_by_role("button", name="Auf Deutsch").click()
    expect(page.get_by_role("heading", name="Einstellungen", level=1)).to_be_visible()
    expect(page.get_by_role("button", name="In English")).to_be_focused()
    page.get_by_role("button", name="Dunkle Farben").click()
    expect(page.get_by_role("button", name="Helle Farben")).to_be_focused()
    page.reload()
    expect(page.get_by_role("button", name="Helle Farben")).to_be_visible()
    assert page.evaluate("[document.documentElement.lang, getComputedStyle(document.body).backgroundColor]") == [
        "de",
        "rgb(18, 21, 24)",
    ]


@pytest.mark.parametrize(("system", "button"), [("light", "Dark colours"), ("dark", "Light colours")])
def test_colours_that_are_chosen_hold_against_the_systems(
    served: PageNode, tab: Tab, system: Literal["light", "dark"], button: str
) -> None:
    page = tab(served, "#/network", color_scheme=system)
    expect(page.get_by_role("heading", name="Network", level=1)).to_be_visible()
    other: Literal["light", "dark"] = "dark" if system == "light" else "light"
    as_is = page.evaluate(COLOURS)
    page.emulate_media(color_scheme=other)
    wanted = page.evaluate(COLOURS)
    page.emulate_media(color_scheme=system)
    assert page.evaluate(COLOURS) == as_is != wanted
    page.get_by_role("button", name=button).click()
    assert page.evaluate(COLOURS) == wanted
    page.reload()
    expect(page.get_by_role("heading", name="Network", level=1)).to_be_visible()
    assert page.evaluate(COLOURS) == wanted
    page.emulate_media(color_scheme=other)
    assert page.evaluate(COLOURS) == wanted


def test_a_question_mark_shows_the_keys_unless_one_writes_or_has_turned_it_off(served: PageNode, tab: Tab) -> None:
    page = tab(served, "#/tools")
    expect(page.locator("main .view-tools input").first).to_be_visible()
    page.locator("main .view-tools input").first.press("?")
    expect(page.get_by_role("dialog")).to_have_count(0)
    page.locator("main").focus()
    page.keyboard.press("?")
    page.get_by_role("dialog", name="Keyboard shortcuts").get_by_label("Enable single-key shortcuts").uncheck()
    page.keyboard.press("Escape")
    expect(page.get_by_role("dialog")).to_have_count(0)
    expect(page.locator("main")).to_be_focused()
    page.keyboard.press("?")
    page.get_by_role("button", name="Keyboard shortcuts").click()
    expect(page.get_by_role("dialog")).to_have_count(1)


def test_a_node_that_goes_is_said_to_be_gone_and_is_found_when_it_comes_back(served: PageNode, tab: Tab) -> None:
    page = tab(served, "#/settings", allow=("WebSocket", "ERR_CONNECTION_REFUSED"))
    state = page.locator("#top .connection")
    expect(state).to_have_text("Connected")
    served.stop()
    expect(state).to_have_text("Connection lost, trying again …")
    served.start()
    expect(state).to_have_text("Connected")
    expect(page.locator("#said")).to_have_text("Connected again")


def test_a_tab_that_has_no_token_is_given_it_by_its_sister(served: PageNode, tab: Tab) -> None:
    first = tab(served)
    expect(first.locator("#top .connection")).to_have_text("Connected")
    second = tab(served, token="", beside=first)
    expect(second.locator("#top .connection")).to_have_text("Connected")
    assert served.token not in second.content() + second.url


def test_a_failure_in_a_conversation_that_is_not_shown_is_told_with_the_way_to_it(served: PageNode, tab: Tab) -> None:
    watching = tab(served, "#/tools")
    expect(watching.locator("#top .connection")).to_have_text("Connected")
    talking = tab(served, beside=watching)
    box = talking.get_by_role("textbox", name="Say something")
    box.fill("please fail")
    box.press("Enter")
    told = watching.locator("#alerts").get_by_role("alert").filter(has_text="fail failed")
    expect(told).to_contain_text("the printer is on fire")
    told.get_by_role("button", name="Open").click()
    expect(told).to_have_count(0)
    expect(watching.get_by_text("please fail").first).to_be_visible()
    assert watching.url == talking.url


def test_a_failure_that_is_dismissed_in_one_tab_or_whose_conversation_is_deleted_is_no_longer_told_in_another(
    served: PageNode, tab: Tab
) -> None:
    watching = tab(served, "#/tools")
    expect(watching.locator("#top .connection")).to_have_text("Connected")
    told = watching.locator("#alerts").get_by_role("alert").filter(has_text="fail failed")
    talking = tab(served, beside=watching)
    for words, end in (("please fail", _dismiss), ("fail again", _delete)):
        box = talking.get_by_role("textbox", name="Say something")
        box.fill(words)
        box.press("Enter")
        expect(told).to_contain_text("the printer is on fire")
        expect(talking.get_by_text("It did not work.")).to_be_visible()
        end(talking)
        expect(told).to_have_count(0)


def _dismiss(page: Page) -> None:
    page.get_by_role("region", name="Something failed").get_by_role("button", name="Dismiss").click()
    page.get_by_role("link", name="New conversation").click()


def _delete(page: Page) -> None:
    use_conversation_menu(page, "fail again", "Delete")
    page.get_by_role("dialog").get_by_role("button", name="Delete").click()


def test_a_question_of_another_conversation_or_of_a_tool_that_is_tried_in_another_tab_is_told_and_answered(
    served: PageNode, tab: Tab
) -> None:
    watching = tab(served, "#/tools/odd:fail")
    expect(watching.locator("#top .connection")).to_have_text("Connected")
    trying = tab(served, "#/tools/notes:write_note", beside=watching)
    trying.get_by_role("textbox", name="path").fill("tried.txt")
    trying.get_by_role("textbox", name="text").fill("rest")
    trying.get_by_role("button", name="Run", exact=True).click()
    expect(trying.get_by_role("dialog", name="write_note?")).to_be_visible()
    told = watching.get_by_role("alert").filter(has_text="write_note waits for your approval")
    told.get_by_role("button", name="Review").click()
    watching.get_by_role("dialog").get_by_role("button", name="Allow once").click()
    expect(watching.get_by_role("dialog")).to_have_count(0)
    expect(trying.locator(".tool-card")).to_have_attribute("data-state", "ok")
    trying.goto(f"{served.url}/#/chat")
    box = trying.get_by_role("textbox", name="Say something")
    box.fill("write the note")
    box.press("Enter")
    told.get_by_role("button", name="Review").click()
    expect(watching.get_by_role("dialog", name="write_note?")).to_be_visible()
    expect(watching.get_by_role("heading", name="write the note", level=1)).to_be_attached()


def test_a_link_with_a_bad_token_takes_the_good_one_from_nobody(served: PageNode, tab: Tab) -> None:
    first = tab(served)
    expect(first.get_by_role("navigation").first).to_be_visible()
    second = tab(served, token="hntoken://v1/of-a-stranger", beside=first)
    expect(second.get_by_role("navigation").first).to_be_visible()  # its sister still has one that is good
    first.get_by_role("link", name="Tools").click()
    expect(first.get_by_text("notes:write_note")).to_be_visible()
    expect(first.locator("#token")).to_have_count(0)


def test_who_comes_to_a_place_without_a_token_is_there_once_it_is_given(served: PageNode, tab: Tab) -> None:
    page = tab(served, "#/network", token="")
    expect(page.get_by_role("textbox", name="Token")).to_be_focused()
    page.goto(f"{served.url}/#token={served.token}")
    expect(page.locator("main .view-network")).to_be_visible()
    assert page.url == f"{served.url}/#/network"


def test_a_dialog_gives_the_focus_back_and_closing_it_is_no(served: PageNode, tab: Tab) -> None:
    page = tab(served, "#/settings")
    button = page.get_by_role("button", name="Forget the token on this device")
    button.click()
    expect(page.get_by_role("dialog").get_by_role("button", name="Cancel")).to_be_focused()
    page.keyboard.press("Escape")
    expect(button).to_be_focused()
    expect(page.locator("#top .connection")).to_have_text("Connected")


def test_on_a_narrow_phone_nothing_is_wider_than_the_page_and_every_target_is_large_enough(
    served: PageNode, tab: Tab
) -> None:
    page = tab(served, viewport={"width": 320, "height": 568}, has_touch=True, locale="de-DE")
    for name in ("chat", "tools", "proof", "network", "settings"):
        page.goto(f"{served.url}/#/{name}")
        expect(page.locator(f"main .view-{name} h1, main .view-{name} h2").first).to_be_visible()
        assert page.evaluate("document.documentElement.scrollWidth") == 320
        assert page.evaluate("document.querySelector('main').scrollWidth") <= 320
    sizes = page.evaluate(
        """[...document.querySelectorAll('#top a:not(.skip), #top button')].map((each) => each.getBoundingClientRect())
          .filter(({width}) => width).map(({width, height}) => Math.min(width, height))"""
    )
    assert len(sizes) == 8
    assert min(sizes) >= 44


def test_the_first_view_needs_less_than_150_kilobytes_and_speaks_as_the_browser_does(
    served: PageNode, tab: Tab
) -> None:
    page = tab(served, locale="de-AT")
    expect(page.get_by_role("link", name="Werkzeuge")).to_be_visible()
    expect(page.locator("main textarea")).to_be_visible()
    sizes = page.evaluate(
        """['navigation', 'resource'].flatMap((kind) => performance.getEntriesByType(kind))
          .map(({transferSize}) => transferSize)"""
    )
    assert len(sizes) > 20
    assert min(sizes) > 0
    assert sum(sizes) < 150_000
