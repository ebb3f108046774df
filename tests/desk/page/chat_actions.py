"""What a person does in the chat, in words: for tests that drive a browser."""

from __future__ import annotations

import re

from playwright.sync_api import Locator, Page, expect


def say(page: Page, words: str) -> None:
    box(page).fill(words)
    page.get_by_role("button", name="Send").click()


def begin_anew(page: Page) -> None:
    """Go to a new conversation, and wait until it is there: words that are written before go with the old one."""
    page.get_by_role("link", name="New conversation").click()
    expect(page.get_by_role("heading", name="What would you like to do?")).to_be_visible()


def box(page: Page) -> Locator:
    """Where the person writes."""
    return page.get_by_role("textbox", name="Say something")


def replies(page: Page) -> Locator:
    return page.locator("article.said-by-model")


def said(page: Page) -> Locator:
    return page.locator("article.said-by-person")


def card(page: Page, tool: str) -> Locator:
    return page.locator(".tool-card", has=page.locator(".card-name", has_text=tool))


def question(page: Page) -> Locator:
    return page.get_by_role("dialog", name=re.compile(r"^Allow .+\?$"))


def press(page: Page, letter: str) -> None:
    """A single key at the question, once it counts."""
    expect(question(page).locator(".question")).to_have_attribute("data-keys", "on")
    page.keyboard.press(letter)


def banner(page: Page) -> Locator:
    return page.get_by_role("region", name="Something failed")


def answered(page: Page, words: str) -> None:
    """Wait until the model has said this and the turn is over."""
    expect(replies(page).last).to_contain_text(words)
    expect(page.get_by_role("button", name="Stop")).to_be_hidden()


def conversation_titles(page: Page) -> Locator:
    return page.get_by_role("navigation", name="Conversations").get_by_role("listitem")


def use_conversation_menu(page: Page, title: str, entry: str) -> None:
    """Do something with a conversation of the list."""
    row = conversation_titles(page).filter(has_text=title)
    row.hover()
    row.get_by_role("button").click()
    row.get_by_role("menuitem", name=entry).click()
