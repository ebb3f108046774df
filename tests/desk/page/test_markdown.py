"""Markdown as a model writes it becomes what it says; as an attacker writes it, nothing but harmless elements."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings, strategies as st
from playwright.sync_api import Browser, Page

from tests.desk.page.conftest import Engine
from tests.desk.page.page_node import HOSTILE
from tests.desk.page.page_sources import WEB
from tests.examples import examples

ELEMENTS = {
    *("h3", "h4", "h5", "h6", "p", "ul", "ol", "li", "pre", "code", "strong", "em", "del", "a", "blockquote", "hr"),
    *("br", "table", "thead", "tbody", "tr", "th", "td", "div", "span", "button"),
}
ATTRIBUTES = {"class", "href", "rel", "target", "title", "start", "type", "scope", "tabindex", "hidden"}
CLASSES = {
    *("code", "code-head", "quiet", "copy", "wide", "num", "mid", "long", "long-box", "piece", "more"),
    *("goes-on", "task"),
}
LOOK = """(texts) => texts.map((text) => {
  const made = markdown(text);
  const all = [...made.querySelectorAll("*")];
  return {
    elements: [...new Set(all.map((each) => each.localName))],
    attributes: [...new Set(all.flatMap((each) => each.getAttributeNames()))],
    classes: [...new Set(all.flatMap((each) => [...each.classList]))],
    links: all.filter((each) => each.localName === "a").map((each) => [each.protocol, each.rel, each.target]),
    text: made.textContent,
  };
})"""
MARKS = st.sampled_from(
    [
        *(
            "*",
            "**",
            "***",
            "_",
            "__",
            "~~",
            "`",
            "``",
            "```",
            "~~~",
            "[",
            "](",
            "]",
            ")",
            "![",
            "<",
            ">",
            "|",
            "|-|-|",
        ),
        *("# ", "- ", "1. ", "> ", "---", "\\", "\n", "\n\n", "    ", "\t", " ", "a", "word", "é", "\u202e", "\x1b[2J"),
        *(
            "https://x.example/",
            "javascript:alert(1)",
            "data:text/html,x",
            "<script>",
            "<img src=x onerror=y>",
            "http://",
        ),
    ]
)


@pytest.fixture(scope="module")
def page(engine: Engine) -> Iterator[Page]:
    with engine.awake() as browser:
        context, page = _opened(browser)
    yield page
    with engine.awake():
        context.close()


def _opened(browser: Browser) -> tuple[Any, Page]:
    """The modules alone: there is no node, and the clipboard and everything else are the browser's."""
    context = browser.new_context()
    page = context.new_page()
    page.route("http://page.test/*", lambda route: route.fulfill(body="<!doctype html>", content_type="text/html"))
    page.route("http://page.test/page/**", lambda route: route.fulfill(path=WEB / route.request.url.split("/page/")[1]))
    page.goto("http://page.test/")
    page.evaluate("async () => Object.assign(globalThis, await import('/page/markdown.js'))")
    return context, page


@pytest.fixture
def shown(browser: Browser, page: Page) -> Any:
    """What an HTML serialiser says of the Markdown, without the head of code blocks."""
    return lambda text: page.evaluate(
        """(text) => {
          const made = document.createElement('div');
          made.append(markdown(text));
          made.querySelectorAll('.code-head').forEach((head) => head.remove());
          return made.innerHTML;
        }""",
        text,
    )


@pytest.mark.parametrize(
    ("text", "html"),
    [
        ("hello *big* **world**", "<p>hello <em>big</em> <strong>world</strong></p>"),
        ("***both*** ~~gone~~", "<p><strong><em>both</em></strong> <del>gone</del></p>"),
        ("# One\n## Two ##\n###### Six", "<h3>One</h3><h4>Two</h4><h5>Six</h5>"),
        ("### Three\n### And\n# One\n### Under", "<h3>Three</h3><h3>And</h3><h3>One</h3><h4>Under</h4>"),
        ("snake_case_name and 2 * 3 * 4", "<p>snake_case_name and 2 * 3 * 4</p>"),
        ("one\ntwo\n\nthree", "<p>one<br>two</p><p>three</p>"),
        ("- a\n- b\n  - c\n- d", "<ul><li>a</li><li>b<ul><li>c</li></ul></li><li>d</li></ul>"),
        ("3. a\n4. b", '<ol start="3"><li>a</li><li>b</li></ol>'),
        ("- [x] done\n- [ ] open", '<ul><li class="task">☑ done</li><li class="task">☐ open</li></ul>'),
        ("> said\n> twice\n\nend", "<blockquote><p>said<br>twice</p></blockquote><p>end</p>"),
        ("`a < b` and ``x`y``", "<p><code>a &lt; b</code> and <code>x`y</code></p>"),
        ("```py\nx:\n  y\n```\nz", '<div class="code"><pre tabindex="0"><code>x:\n  y</code></pre></div><p>z</p>'),
        ("~~~\n```\n~~~", '<div class="code"><pre tabindex="0"><code>```</code></pre></div>'),
        ("```\nnever closed", '<div class="code"><pre tabindex="0"><code>never closed</code></pre></div>'),
        ("a\n\n---\n\nb", "<p>a</p><hr><p>b</p>"),
        (r"\*not\* \[this\]", "<p>*not* [this]</p>"),
        ("<b>no</b> & <!-- no -->", "<p>&lt;b&gt;no&lt;/b&gt; &amp; &lt;!-- no --&gt;</p>"),
        ("**bold `co*de` x**", "<p><strong>bold <code>co*de</code> x</strong></p>"),
        ("a ** b ** c * d", "<p>a ** b ** c * d</p>"),
    ],
)  # fmt: skip
def test_markdown_becomes_what_it_says(shown: Any, text: str, html: str) -> None:
    assert shown(text) == html


def test_a_table_is_one(shown: Any) -> None:
    made = shown("| a | n |\n|---|--:|\n| x \\| y | 1 |\n| z |\n\nend")
    head = '<thead><tr><th scope="col">a</th><th scope="col" class="num">n</th></tr></thead>'
    rows = '<tr><td>x | y</td><td class="num">1</td></tr><tr><td>z</td><td class="num"></td></tr>'
    assert made == f'<div class="wide" tabindex="0"><table>{head}<tbody>{rows}</tbody></table></div><p>end</p>'


LOOKALIKE = "https://b\u0430nk.example"
"""With an a of another alphabet."""


def _link(href: str, words: str) -> str:
    return f'<a href="{href}" rel="noopener noreferrer" target="_blank" title="{href}">{words}</a>'


@pytest.mark.parametrize(
    ("text", "html"),
    [
        ("[here](https://x.example/a_(b))", f"<p>{_link('https://x.example/a_(b)', 'here')}</p>"),
        ('[here](https://x.example "title")', f"<p>{_link('https://x.example/', 'here')}</p>"),
        ("see https://x.example/a.", f"<p>see {_link('https://x.example/a', 'https://x.example/a')}.</p>"),
        ("<mailto:a@x.example>", f"<p>{_link('mailto:a@x.example', 'mailto:a@x.example')}</p>"),
        ("![cat](https://x.example/c.png)", f"<p>{_link('https://x.example/c.png', 'shell.link.image')}</p>"),
        ("[a](javascript:alert(1))", "<p>[a](javascript:alert(1))</p>"),
        ("[a](data:text/html,x) <javascript:x>", "<p>[a](data:text/html,x) &lt;javascript:x&gt;</p>"),
        ("[a](//x.example) [b](/bus/v1/call)", "<p>[a](//x.example) [b](/bus/v1/call)</p>"),
        (
            "[https://bank.example](https://evil.example/)",
            f"<p><span>{_link('https://evil.example/', 'https://bank.example')} (evil.example)</span></p>",
        ),
        (
            "[bank.example/in](https://evil.example/)",
            f"<p><span>{_link('https://evil.example/', 'bank.example/in')} (evil.example)</span></p>",
        ),
        (
            "https://bank.example@evil.example/",
            f"<p><span>{_link('https://bank.example@evil.example/', 'https://bank.example@evil.example/')}"
            " (evil.example)</span></p>",
        ),
        (
            f"[{LOOKALIKE}]({LOOKALIKE})",
            f"<p><span>{_link('https://xn--bnk-6cd.example/', LOOKALIKE)} (xn--bnk-6cd.example)</span></p>",
        ),
    ],
)
def test_a_link_goes_where_it_says_and_nowhere_that_runs(shown: Any, text: str, html: str) -> None:
    assert shown(text) == html


def test_nothing_but_harmless_elements_comes_of_any_text(browser: Browser, page: Page) -> None:
    texts = [HOSTILE, '[x](https://a.example/" onclick="y)', *_texts(st.lists(MARKS, max_size=40).map("".join))]
    for text, found in zip(texts, page.evaluate(LOOK, texts), strict=True):
        assert set(found["elements"]) <= ELEMENTS, text
        assert set(found["attributes"]) <= ATTRIBUTES, text
        assert set(found["classes"]) <= CLASSES, text
        for protocol, rel, target in found["links"]:
            assert (protocol in {"http:", "https:", "mailto:"}, rel, target) == (True, "noopener noreferrer", "_blank")
        assert not {"\u202e", "\x1b"} & set(found["text"])


def test_the_words_of_a_text_are_all_there(browser: Browser, page: Page) -> None:
    texts = _texts(
        st.lists(st.sampled_from(["ab", "cd", " ", "\n", "*", "- ", "> ", "# ", "`"]), max_size=30).map("".join)
    )
    for text, found in zip(texts, page.evaluate(LOOK, texts), strict=True):
        said = found["text"].replace("shell.copy", "")
        assert "".join(filter(str.isalpha, said)) == "".join(filter(str.isalpha, text)), text


@pytest.mark.parametrize(
    "mark",
    [
        "*",
        "**a",
        "_a ",
        "`",
        "` ``",
        "[",
        "[](",
        "![",
        "<",
        "> ",
        "- ",
        "  - ",
        "|",
        "|-|\n",
        "#",
        "\\",
        "~~",
        "http://",
        "***a*",
    ],
)
def test_a_text_of_nothing_but_marks_is_read_in_one_go(browser: Browser, page: Page, mark: str) -> None:
    """Where the time grew with the square of the length, this would take minutes."""
    text = mark * (300_000 // len(mark))
    made = page.evaluate("(text) => markdown(text).textContent.length", text)
    assert made <= len(text) + 100_000


def _texts(strategy: st.SearchStrategy[str]) -> list[str]:
    found: list[str] = []

    @settings(
        max_examples=examples(150), database=None, derandomize=True, deadline=None, phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )  # fmt: skip
    @given(strategy)
    def collect(text: str) -> None:
        found.append(text)

    collect()
    return found
