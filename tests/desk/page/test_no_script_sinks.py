"""Nothing in the page can make text into code or into elements, whoever wrote the text."""

from __future__ import annotations

import re

import pytest

from tests.desk.page.page_sources import sources

SINKS = {
    "HTML that is parsed": r"\b(?:\w+HTML|createContextualFragment|\w+HTMLUnsafe|DOMParser|srcdoc\s*=)",
    "a document that is written": r"\bdocument\s*\.\s*write",
    "text that is run": r"\beval\s*\(|\bnew\s+Function\b|\bFunction\s*\(|set(?:Timeout|Interval)\(\s*[\"'`]",
    "a handler in an attribute": r"setAttribute\(\s*[\"'`]on|\bon(?:click|error|load|change|submit|key\w+)[\"'`]?\s*:",
    "an address that runs": r"[\"'`]\s*(?:javascript|vbscript):",
    "a script that is made": r"\bh\(\s*[\"'`](?:script|iframe|object|embed|base|style|link|meta)[\"'`]",
    "something from elsewhere": r"(?:import|from)\s*\(?\s*[\"'`](?:https?:)?//",
    "another way to the node": r"\bfetch\(|\b(?:XMLHttpRequest|EventSource|WebTransport|RTC\w+|\w*Worker|sendBeacon)\b",
    "a policy that lets things through": r"\btrustedTypes\b",
}


@pytest.mark.parametrize("sink", SINKS)
def test_no_source_has(sink: str) -> None:
    found = [
        f"{name}:{number}: {line.strip()}"
        for name, text in sources(".js").items()
        for number, line in enumerate(text.splitlines(), 1)
        if re.search(SINKS[sink], line) and not _is_comment(line)
    ]
    assert found == []


def test_elements_are_made_in_one_place() -> None:
    makers = [name for name, text in sources(".js").items() if re.search(r"createElement(?:NS)?\(", text)]
    assert makers == ["dom.js"]


def test_the_node_is_spoken_to_in_one_place() -> None:
    speakers = [name for name, text in sources(".js").items() if "new WebSocket(" in text]
    assert speakers == ["bus.js"]


def test_what_a_browser_has_only_over_tls_is_used_where_something_else_takes_its_place() -> None:
    code = {name: re.sub(r"/\*.*?\*/", "", text, flags=re.DOTALL) for name, text in sources(".js").items()}
    assert [name for name, text in code.items() if re.search(r"\brandomUUID\b", text)] == []
    assert [name for name, text in code.items() if "navigator.clipboard" in text] == ["copy.js"]


def test_the_document_has_no_script_style_or_handler_of_its_own() -> None:
    html = sources(".html")["index.html"]
    for tag in re.findall(r"<script[^>]*>[^<]*</script>", html):
        assert re.fullmatch(r'<script (?:type="module" )?src="/page/[a-z]+\.js"></script>', tag)
    assert "<style" not in html
    assert not re.search(r"\s(?:style|on\w+)=", html)
    assert not re.search(r"(?:src|href)=\"(?!/page/)", html)


def test_the_style_takes_nothing_from_elsewhere() -> None:
    for text in sources(".css").values():
        assert not re.search(r"@import|url\(|expression\(", text)


def _is_comment(line: str) -> bool:
    return line.strip().startswith(("*", "/*", "//"))
