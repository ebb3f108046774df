"""What axe-core finds on every view and in every state of the page: nothing, in light and dark, in both languages."""

from __future__ import annotations

from typing import Any

from playwright.sync_api import Page, expect

from tests.desk.page.chat_actions import answered, banner, card, conversation_titles, question, say
from tests.desk.page.conftest import Tab
from tests.desk.page.page_node import PageNode
from tests.npm_packages import PACKAGES

TAGS = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa"]
RUN = """
async ([tags, themes]) => {
  const root = document.documentElement;
  const kept = root.dataset.theme;
  const found = [];
  for (const theme of themes) {
    root.dataset.theme = theme;
    const only = theme === themes[0] ? { type: "tag", values: tags } : { type: "rule", values: ["color-contrast"] };
    const { violations } = await axe.run({ runOnly: only, reporter: "no-passes", preload: false });
    for (const { id, help, nodes } of violations) {
      for (const { target, any, all, none } of nodes) {
        const why = [...any, ...all, ...none].map(({ message }) => message).join("; ");
        found.push(`${theme}: ${id}: ${help}: ${target.join(" ")}: ${why}`);
      }
    }
  }
  if (kept) root.dataset.theme = kept;
  else delete root.dataset.theme;
  return found;
}
"""
"""All rules in the first theme; in the others those that colours can break."""
PHONE: dict[str, Any] = {"viewport": {"width": 360, "height": 740}, "has_touch": True, "is_mobile": True}


class Axe:
    """Looks at a page, and remembers what was wrong where."""

    def __init__(self, page: Page, *themes: str) -> None:
        self._page = page
        self._themes = themes
        self._found: list[str] = []
        self._load()

    def look(self, where: str) -> None:
        if not self._page.evaluate("'axe' in window"):
            self._load()
        self._found += [f"{where}: {each}" for each in self._page.evaluate(RUN, [TAGS, self._themes])]

    def found(self) -> str:
        return "\n\n".join(self._found)

    def _load(self) -> None:
        """Not as a script of the page, which its policy forbids."""
        session = self._page.context.new_cdp_session(self._page)
        script = (PACKAGES / "axe-core" / "axe.min.js").read_text(encoding="utf-8")
        session.send("Runtime.evaluate", {"expression": f"{script};0"})
        session.detach()


def test_axe_finds_what_is_wrong_so_that_its_silence_means_something(served: PageNode, tab: Tab) -> None:
    page = tab(served)
    expect(page.locator("main textarea")).to_be_visible()
    axe = Axe(page, "light", "dark")
    page.evaluate("document.querySelector('.talk-search').removeAttribute('aria-label')")
    page.evaluate("document.querySelector('.talk-search').removeAttribute('placeholder')")
    page.evaluate("document.querySelector('h1').style.color = '#dddddd'")
    axe.look("broken")
    assert "broken: light: color-contrast" in axe.found()
    assert "broken: light: label" in axe.found()


def test_the_chat_has_nothing_that_axe_minds(served: PageNode, tab: Tab) -> None:
    page = tab(served)
    axe = Axe(page, "light", "dark")
    expect(page.locator("main textarea")).to_be_visible()
    axe.look("empty")
    say(page, "write the note")
    expect(question(page)).to_be_visible()
    axe.look("question")
    for name in ("Always allow", "Edit", "Deny with a reason"):
        question(page).get_by_role("button", name=name).first.click()
        axe.look(f"question, {name}")
    page.keyboard.press("Escape")
    card(page, "notes:write_note").get_by_role("button", name="Answer").click()
    question(page).get_by_role("button", name="Allow once").click()
    answered(page, "It is written.")
    card(page, "notes:write_note").locator("summary").click()
    axe.look("a card unfolded")
    say(page, "do the work")
    served.gate.wait()
    expect(card(page, "odd:long_job")).to_have_attribute("data-state", "running")
    axe.look("a call under way")
    served.gate.step(3)
    answered(page, "The work is done.")
    say(page, "fail")
    expect(banner(page)).to_be_visible()
    answered(page, "It did not work.")
    axe.look("a failure")
    page.locator("summary.picker").click()
    axe.look("ensembles")
    page.keyboard.press("Escape")
    conversation_titles(page).first.get_by_role("button").click()
    axe.look("menu")
    page.keyboard.press("Escape")
    assert not axe.found(), axe.found()


def test_the_other_views_have_nothing_that_axe_minds(served: PageNode, tab: Tab) -> None:
    page = tab(served)
    axe = Axe(page, "light", "dark")
    say(page, "read the note")
    answered(page, "You need bread")
    _walk(page, served, axe)
    page.goto(f"{served.url}/#/nowhere")
    axe.look("nowhere")
    assert not axe.found(), axe.found()


def test_on_a_phone_in_german_axe_minds_nothing(served: PageNode, tab: Tab) -> None:
    page = tab(served, locale="de-DE", **PHONE)
    axe = Axe(page, "dark")
    page.get_by_role("textbox", name="Sagen Sie etwas").fill("fail")
    page.get_by_role("button", name="Senden").click()
    expect(page.locator("article.said-by-model").last).to_contain_text("It did not work.")
    axe.look("chat")
    page.locator("button.open-drawer").click()
    expect(page.locator("nav .talk").first).to_be_visible()
    axe.look("drawer")
    _walk(page, served, axe)
    assert not axe.found(), axe.found()


def test_the_door_has_nothing_that_axe_minds(served: PageNode, tab: Tab) -> None:
    page = tab(served, token="")
    expect(page.get_by_role("dialog")).to_be_visible()
    axe = Axe(page, "light", "dark")
    axe.look("door")
    page.get_by_label("Token", exact=True).fill("hntoken://v1/nonsense")
    page.keyboard.press("Enter")
    expect(page.get_by_role("alert")).to_be_visible()
    axe.look("a token refused")
    assert not axe.found(), axe.found()


def _walk(page: Page, house: PageNode, axe: Axe) -> None:
    """Through the views, each as soon as it has something to show."""
    page.goto(f"{house.url}/#/tools")
    expect(page.locator(".tool-link")).not_to_have_count(0)
    axe.look("tools")
    page.locator(".tool-link", has_text="notes:write_note").click()
    expect(page.locator("main form textarea, main form input").first).to_be_visible()
    axe.look("tool")
    page.goto(f"{house.url}/#/proof")
    expect(page.locator("main a[href^='#/proof/']").first).to_be_visible()
    axe.look("runs")
    page.locator("main a[href^='#/proof/']").first.click()
    expect(page.locator(".entry")).not_to_have_count(0)
    page.locator(".entry summary").first.click()
    axe.look("run")
    page.goto(f"{house.url}/#/network")
    expect(page.locator("main h2").first).to_be_visible()
    axe.look("network")
    page.goto(f"{house.url}/#/settings")
    expect(page.locator(".setting")).not_to_have_count(0)
    for table in ("[models.scripted]", "[services]"):
        page.locator(".setting-group > summary", has_text=table).click()
    axe.look("settings")
    page.locator(".setting input").first.fill("nowhere")
    page.locator(".setting input").first.press("Enter")
    expect(page.locator(".field-wrong .problem")).to_have_count(1)
    axe.look("settings, a mistake at its field")
    page.locator(".setting input").first.fill("local")
    page.locator(".settings button.primary").click()
    expect(page.locator("dialog .diff")).to_be_visible()
    axe.look("settings, what will change")
    page.keyboard.press("Escape")
    page.locator("[role=tab]").last.click()
    expect(page.locator("#config-text")).to_be_visible()
    axe.look("settings as text")
