"""A page that speaks German says nothing in English, in any view; what comes from tools and models stays as it is."""

from __future__ import annotations

import re

from playwright.sync_api import Page, expect

from tests.desk.page.chat_actions import card, replies
from tests.desk.page.conftest import Tab
from tests.desk.page.page_node import PageNode
from tests.desk.page.test_translations import FILES, words

SHOWN = """
() => {
  const found = new Set([document.title]);
  const walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walk.nextNode()) {
    const at = walk.currentNode.parentElement;
    if (!at.closest("code, pre, noscript, textarea, option")) found.add(walk.currentNode.nodeValue.trim());
  }
  for (const each of document.querySelectorAll("[aria-label], [title], [placeholder], [alt]"))
    for (const name of ["aria-label", "title", "placeholder", "alt"]) found.add(each.getAttribute(name) ?? "");
  return [...found];
}
"""
"""Everything that the page says or tells a screen reader."""
BOTH = {"EN: in English", "English"}
"""For whoever does not read German."""


def english(page: Page) -> set[str]:
    """What is shown in the page's own English words, though German ones are other."""
    patterns = []
    for file in FILES:
        en, de = words(file)["en"], words(file)["de"]
        german = set(de.values())
        patterns += [_pattern(text) for key, text in en.items() if text != de[key] and text not in german]
    any_of = re.compile("|".join(patterns))
    return {text for text in page.evaluate(SHOWN) if any_of.fullmatch(text)} - BOTH


def _pattern(text: str) -> str:
    """The words with whatever is filled in; of a text that is hardly more than that, nothing is known."""
    parts = re.split(r"\{\w+\}", text)
    return ".+".join(map(re.escape, parts)) if len("".join(parts).strip()) > 3 else r"(?!)"


def test_no_view_says_anything_in_english(served: PageNode, tab: Tab) -> None:
    page = tab(served, locale="de-DE")
    found: dict[str, set[str]] = {}

    def look(where: str) -> None:
        found[where] = english(page)

    def say(text: str) -> None:
        page.get_by_role("textbox", name="Sagen Sie etwas").fill(text)
        page.get_by_role("button", name="Senden").click()

    expect(page.get_by_role("heading", name="Was möchten Sie tun?")).to_be_visible()
    look("begin")
    say("write the note")
    for word in ("Ändern", "immer erlauben", "Mit Begründung ablehnen"):
        page.get_by_role("button", name=word).first.click()
        look(word)
    page.get_by_role("button", name="Einmal erlauben").click()
    expect(replies(page).last).to_contain_text("It is written.")
    say("fail")
    expect(page.get_by_role("region", name="Etwas ist gescheitert")).to_be_visible()
    card(page, "odd:fail").locator("summary").click()
    page.get_by_role("button", name="Aktionen für").click()
    look("chat")
    page.keyboard.press("Escape")
    page.get_by_role("button", name="Tastenkürzel").click()
    look("keys")
    page.keyboard.press("Escape")
    run = page.url.rpartition("/")[2]
    for route, seen in {
        "tools": "odd:fail",
        "tools/odd:fail": "Ausprobieren",
        "proof": "Alles, was lief",
        f"proof/{run}": "Der Lauf endete: fertig",
        "network": "Letzte Aufrufe",
        "settings": "Wie weit ein Lauf gehen darf",
        "nowhere": "Diese Seite gibt es nicht.",
    }.items():
        page.goto(f"{served.url}/#/{route}")
        expect(page.get_by_text(seen).first).to_be_attached()
        look(route)
    page.locator("main").evaluate("main => main.append('Try again')")
    assert english(page) == {"Try again"}  # it would have been found
    assert {where: said for where, said in found.items() if said} == {}
