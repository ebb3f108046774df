"""Python with its words marked for a style sheet. It need not be right Python: it is what a model wrote."""

from __future__ import annotations

import keyword
import re
from collections.abc import Callable

_OURS = (
    *("llm_query", "llm_query_batched", "rlm_query", "rlm_query_batched"),
    *("context", "answer", "history", "SHOW_VARS", "FINAL", "FINAL_VAR"),
)
_TOKEN = re.compile(
    r"""
    (?P<c>\#[^\n]*)
    | (?P<s>(?<!\w)[rbfuRBFU]{0,2}(?:
        \"\"\"(?>(?:[^"\\]++|\\.|"(?!""))*)(?:\"\"\")?
        | '''(?>(?:[^'\\]++|\\.|'(?!''))*)(?:''')?
        | "(?>(?:[^"\\\n]++|\\.)*)"?
        | '(?>(?:[^'\\\n]++|\\.)*)'?))
    | (?P<n>(?<!\w)\d[\w.]*+)
    | (?P<w>(?<!\w)[^\W\d]\w*+)
    """,
    re.VERBOSE | re.DOTALL,
)
_WORDS = {**dict.fromkeys(keyword.kwlist, "k"), **dict.fromkeys(_OURS, "h")}


def marked(code: str, safe: Callable[[str], str]) -> str:
    """HTML; `safe` makes a piece of text harmless."""
    parts: list[str] = []
    at = 0
    for token in _TOKEN.finditer(code):
        kind = token.lastgroup if token.lastgroup != "w" else _WORDS.get(token.group())
        if kind is None:
            continue
        parts += [safe(code[at : token.start()]), f'<span class="{kind}">{safe(token.group())}</span>']
        at = token.end()
    return "".join([*parts, safe(code[at:])])
