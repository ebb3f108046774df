"""Where a person writes: words, files, the model and its tools; what of it is kept, and what follows the node."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from playwright.sync_api import Dialog, Page, expect

from tests.desk.page.chat_actions import answered, box, replies, said, say
from tests.desk.page.conftest import Tab
from tests.desk.page.page_node import PageNode

COMPOSED = """
async () => {
  const { composer } = await import("/page/views/chat/composer.js");
  globalThis.given = [];
  const send = (said) => { given.push(said); return new Promise((done) => (globalThis.done = done)); };
  const made = composer("tried", {models: [], ensembles: []}, {send, stop: async () => {}, choose: () => {}});
  made.node.id = "tried";
  document.querySelector("main").replaceChildren(made.node);
}
"""
PASTED = """
(field, letters) => {
  const clipboardData = new DataTransfer();
  clipboardData.setData("text/plain", "x".repeat(letters));
  field.dispatchEvent(new ClipboardEvent("paste", {clipboardData, bubbles: true, cancelable: true}));
}
"""
PHONE: dict[str, Any] = {"viewport": {"width": 360, "height": 740}, "has_touch": True, "is_mobile": True}


def test_files_are_given_with_words(served: PageNode, tab: Tab, tmp_path: Path) -> None:
    page = tab(served)
    (tmp_path / "list.txt").write_text("eggs")
    (tmp_path / "dot.png").write_bytes(_PNG)
    (tmp_path / "tool.exe").write_bytes(b"MZ")
    chosen = page.get_by_label("Attached files")
    page.locator("input[type=file][multiple]").set_input_files([tmp_path / "list.txt", tmp_path / "dot.png"])
    expect(chosen.get_by_role("listitem")).to_have_count(2)
    page.get_by_role("button", name="Remove list.txt").click()
    expect(chosen.get_by_role("listitem")).to_have_count(1)
    page.locator("input[type=file][multiple]").set_input_files([tmp_path / "tool.exe"])
    expect(page.get_by_text("tool.exe is neither a picture nor a text file.")).to_be_visible()
    say(page, "hello, look at this")
    answered(page, "Hello!")
    expect(said(page).get_by_role("img", name="dot.png")).to_be_visible()


def test_a_model_and_its_tools_are_chosen_and_stay_so(served: PageNode, tab: Tab) -> None:
    page = tab(served)
    page.get_by_role("combobox", name="Model").select_option("other")
    page.locator("summary.picker").click()
    page.get_by_role("checkbox", name="odd").uncheck()
    expect(page.locator("summary.picker")).to_contain_text("2 tools")
    say(page, "who are you?")
    answered(page, "I am the other model.")
    page.reload()
    expect(page.get_by_role("combobox", name="Model")).to_have_value("other")
    expect(page.locator("summary.picker")).to_contain_text("2 tools")


def test_what_can_be_chosen_follows_the_configuration_while_the_page_is_open(served: PageNode, tab: Tab) -> None:
    begins = tab(served)
    talks_on = tab(served, beside=begins)
    say(talks_on, "hello")
    answered(talks_on, "Hello!")
    before = served.config.read_text()
    third = '[models.third]\nprovider = "scripted"\nmodel = "other.json"\n\n[services]'
    served.config.write_text(before.replace("[services]", third).replace(', "odd.toml"', ""))
    for page in (begins, talks_on):
        expect(page.get_by_role("combobox", name="Model").locator("option")).to_have_text(
            ["scripted", "other", "third"]
        )
        expect(page.locator("summary.picker")).to_contain_text("2 tools")
    expect(begins.get_by_text("2 tools are available.")).to_be_visible()
    served.config.write_text(before.replace('default_model = "scripted"', 'default_model = "other"'))
    expect(begins.get_by_role("combobox", name="Model")).to_have_value("other")
    expect(talks_on.get_by_role("combobox", name="Model")).to_have_value("scripted")
    say(begins, "who are you?")
    answered(begins, "I am the other model.")


def test_what_was_not_sent_is_still_there_in_another_language_after_another_view_and_for_the_browser_to_ask_about(
    served: PageNode, tab: Tab, tmp_path: Path
) -> None:
    (tmp_path / "list.txt").write_text("eggs")
    page = tab(served)
    page.locator("input[type=file][multiple]").set_input_files([tmp_path / "list.txt"])
    page.get_by_role("combobox", name="Model").select_option("other")
    box(page).fill("look at")
    page.get_by_role("button", name="Dark colours").click()
    page.get_by_role("button", name="Auf Deutsch").click()
    expect(page.get_by_role("textbox", name="Sagen Sie etwas")).to_have_value("look at")
    expect(page.get_by_label("Angehängte Dateien").get_by_role("listitem")).to_contain_text("list.txt")
    page.get_by_role("button", name="In English").click()
    page.get_by_role("link", name="Tools").click()
    expect(page.get_by_text("notes:write_note")).to_be_visible()
    page.get_by_role("link", name="Chat").click()
    expect(page.get_by_label("Attached files").get_by_role("listitem")).to_contain_text("list.txt")
    expect(page.get_by_role("combobox", name="Model")).to_have_value("other")
    asked: list[str] = []

    def leave(dialog: Dialog) -> None:
        asked.append(dialog.type)
        dialog.accept()

    page.on("dialog", leave)
    page.reload()
    expect(box(page)).to_have_value("look at")
    assert asked == ["beforeunload"]
    page.locator("input[type=file][multiple]").set_input_files([tmp_path / "list.txt"])
    say(page, "hello, look at this")
    answered(page, "Hello!")
    page.reload()
    expect(box(page)).to_have_value("")
    assert asked == ["beforeunload"]


def test_words_that_take_the_place_of_others_still_do_after_a_look_elsewhere_and_a_reload(
    served: PageNode, tab: Tab
) -> None:
    page = tab(served)
    say(page, "hello one")
    answered(page, "Hello!")
    said(page).get_by_role("button", name="Edit").click()
    box(page).fill("hello two")
    page.get_by_role("link", name="Tools").click()
    expect(page.get_by_text("notes:write_note")).to_be_visible()
    page.go_back()
    expect(box(page)).to_have_value("hello two")
    page.reload()
    expect(box(page)).to_have_value("hello two")
    page.get_by_role("button", name="Send").click()
    expect(said(page)).to_contain_text(["hello two"])
    expect(said(page)).to_have_count(1)


def test_a_lost_connection_is_said_on_a_phone_without_taking_the_room_to_write(served: PageNode, tab: Tab) -> None:
    page = tab(served, allow=("WebSocket",), locale="de-DE", **PHONE)
    page.get_by_role("textbox", name="Sagen Sie etwas").fill("hello")
    page.get_by_role("button", name="Senden").tap()
    expect(replies(page)).to_contain_text("Hello!")
    before = page.locator(".composer").evaluate("composer => composer.offsetHeight")
    served.stop()
    expect(page.get_by_text("Nicht verbunden")).to_be_visible()
    assert page.locator(".composer").evaluate("composer => composer.offsetHeight") < before + 60
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")


def test_what_is_written_while_something_is_sent_stays_and_an_input_method_sends_nothing(blank: Page) -> None:
    blank.evaluate(COMPOSED)
    text = blank.locator("#tried textarea")
    text.fill("hello")
    text.dispatch_event("keydown", {"key": "Enter", "isComposing": True})
    text.dispatch_event("keydown", {"key": "Enter", "keyCode": 229})
    assert blank.evaluate("globalThis.given.length") == 0
    text.press("Enter")
    text.press_sequentially(" and more")
    blank.evaluate("globalThis.done()")
    expect(text).to_have_value(" and more")
    assert blank.evaluate("globalThis.given.map(({text}) => text)") == ["hello"]


def test_a_very_long_text_that_is_pasted_is_a_file(blank: Page) -> None:
    box(blank).evaluate(PASTED, 5_000_000)
    expect(blank.get_by_label("Attached files").get_by_role("listitem")).to_contain_text("5 MB")
    expect(box(blank)).to_have_value("")
    say(blank, "hello, look at this")
    answered(blank, "Hello!")
    expect(blank.locator(".messages")).to_contain_text("pasted.txt")


_PNG = bytes.fromhex(
    "89504e470d0a1a0a0000000d4948445200000001000000010806000000"
    "1f15c4890000000d49444154789c63f8ffff3f0005fe02fea72d6f5e0000000049454e44ae426082"
)
