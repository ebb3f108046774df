"""Long words of a model: drawn in pieces while they come and when they are opened, and to the eye all the same."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings, strategies as st
from playwright.sync_api import Page, expect

from handrail.core.messages import AssistantMessage, Conversation, Text, UserMessage
from handrail.sessions.store.conversations import ConversationStore
from tests.desk.page.chat_actions import answered, replies, say
from tests.desk.page.conftest import Tab
from tests.desk.page.page_node import PageNode

LINES = [
    "words",
    "more *words",
    "end* of `it",
    "a | b\r",
    "",
    "",
    "- one",
    "- [x] two",
    "* other",
    "  under it",
    "  - deeper",
    "1. first",
    "2) second",
    "> said",
    "> - said",
    "| a | b |",
    "|---|---|",
    "| c |",
    "# Head",
    "### Deeper",
    "```",
    "      ```",
    "  ```",
    "~~~",
    "    four",
    "---",
    "[a](https://x.example/",
    "b)",
]
STREAMED = """
async (texts) => {
  const { streamed } = await import("/page/views/chat/streamed.js");
  const { markdown } = await import("/page/markdown.js");
  const { requestAnimationFrame, setTimeout } = globalThis;
  const frames = [];
  globalThis.requestAnimationFrame = globalThis.setTimeout = (due) => frames.push(due);
  const whole = (text) => {
    const box = document.createElement("div");
    box.append(markdown(text));
    return box.innerHTML;
  };
  const same = (made, text) => {
    while (frames.length) frames.shift()();
    return [...made.node.children].map((part) => part.innerHTML).join("") === whole(text);
  };
  const wrong = (text) => {
    const made = streamed();
    for (let upto = 1; upto <= text.length; upto++) {
      made.set(text.slice(0, upto));
      if (!same(made, text.slice(0, upto))) return text.slice(0, upto);
    }
    made.end();
    return same(made, text) ? null : text;
  };
  try {
    return texts.map(wrong).filter((text) => text !== null);
  } finally {
    Object.assign(globalThis, { requestAnimationFrame, setTimeout });
  }
}
"""
"""The texts that at some letter look otherwise while they grow than they do when they are drawn at once."""
DRAWN = """
async (text) => {
  const { drawn } = await import("/page/views/chat/streamed.js");
  const { markdown } = await import("/page/markdown.js");
  const whole = document.createElement("div");
  whole.append(markdown(text));
  const made = drawn(text);
  const html = () => [...made.children].map((part) => part.innerHTML).join("");
  const first = html().length;
  while (html().length < whole.innerHTML.length) await new Promise(requestAnimationFrame);
  return first < whole.innerHTML.length && made.childElementCount > 1 && html() === whole.innerHTML;
}
"""
WATCHED = """
() => {
  const look = () => (globalThis.words ??= document.querySelector(".underway .part"));
  new MutationObserver(look).observe(document.querySelector(".underway"), {childList: true, subtree: true});
}
"""
"""Keeps the first words that are drawn while the model speaks."""
RUN = "run_00000000000000000000000000000001"


@settings(max_examples=4, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(texts=st.lists(st.lists(st.sampled_from(LINES), max_size=14).map("\n".join), min_size=15, max_size=15))
def test_what_is_shown_while_the_model_writes_is_what_is_shown_in_the_end(blank: Page, texts: list[str]) -> None:
    assert blank.evaluate(STREAMED, texts) == []


@pytest.mark.parametrize(
    "text",
    [
        "# A\n\n" + "### B\n\nsome words\n\n- one\n- two\n\n```\n# no head\n\n```\n\n" * 1_500,
        "- an *item*\n  - of two\n" * 5_000 + "\nend",
        "1. an *item*\n" * 9_000 + "\nend",
        "| a | b |\n|---|--:|\n" + "| `c` | d |\n" * 5_000 + "\n" + "words\n\n" * 900,
        "a line of *words*\n" * 8_000,
    ],
    ids=["blocks", "list", "numbered", "table", "lines"],
)
def test_a_long_text_is_drawn_in_pieces_and_looks_as_if_it_were_one(blank: Page, text: str) -> None:
    assert blank.evaluate(DRAWN, text)


def test_words_that_became_a_message_stay_what_they_are_on_the_screen(served: PageNode, tab: Tab) -> None:
    served.reply("book", "\n\n".join(f"paragraph {n} " + "-of-a-long-word" * 90 for n in range(80)))
    page = tab(served)
    say(page, "hello")
    answered(page, "Hello!")
    page.evaluate(WATCHED)
    say(page, "a book")
    expect(replies(page).locator("p")).to_have_count(81)
    assert page.evaluate("globalThis.words.isConnected")
    expect(replies(page).get_by_role("button", name="Show more")).to_have_count(0)


def test_of_a_long_table_the_browser_lays_out_as_many_rows_as_are_wanted(served: PageNode, tab: Tab) -> None:
    served.reply("rows", "| a | b |\n|---|---|\n" + "".join(f"| {n} | x |\n" for n in range(1_000)) + "\nAll.")
    page = tab(served)
    say(page, "the rows")
    answered(page, "All.")
    rows = replies(page).locator("tbody tr")
    expect(rows).to_have_count(1_000)
    seen = rows.filter(visible=True)
    more = replies(page).get_by_role("button", name="Show more")
    for shown in (450, 900, 1_000):
        expect(seen).to_have_count(shown)
        expect(more).to_have_count(int(shown < 1_000))
        if shown < 1_000:
            more.click()


def test_a_reply_of_a_book_is_shown_whole_as_it_was_meant(served: PageNode, tab: Tab) -> None:
    book = f"{'word ' * 2_000}\n\n" * 11 + "## The end"
    kept = Conversation((UserMessage((Text("a book"),)), AssistantMessage(book)))
    ConversationStore(served.journal.parent).save(RUN, kept, title="Book")
    page = tab(served, f"#/chat/{RUN}")
    replies(page).get_by_role("button", name="Show more").click()
    expect(replies(page).get_by_role("heading", name="The end")).to_be_visible()
    expect(replies(page).locator("p")).to_have_count(11)
