"""What a docstring says, in Google, NumPy or Sphinx style."""

from __future__ import annotations

import inspect
import re
from typing import TYPE_CHECKING

from msgspec import Struct, field

if TYPE_CHECKING:
    import docstring_parser


class ParsedDocstring(Struct, frozen=True):
    description: str = ""
    """The first sentence and the text after it, without the sections."""
    parameters: dict[str, str] = field(default_factory=dict)
    returns: str = ""


def read_docstring(text: str | None) -> ParsedDocstring:
    """Read a docstring in whichever style tells the most. What no style understands is all description."""
    if not text or not text.strip():
        return ParsedDocstring()
    parsed = _parse(inspect.cleandoc(text))
    if parsed is None:
        return ParsedDocstring(_fold(inspect.cleandoc(text)))
    gap = "\n\n" if parsed.blank_after_short_description else "\n"
    description = gap.join(part for part in (parsed.short_description, parsed.long_description) if part)
    parameters = {
        name.strip().lstrip("*\\"): _fold(parameter.description or "")
        for parameter in parsed.params
        for name in parameter.arg_name.split(",")
    }
    returns = (parsed.returns and parsed.returns.description) or ""
    return ParsedDocstring(
        _fold(description), {name: words for name, words in parameters.items() if words}, _fold(returns)
    )


def _parse(text: str) -> docstring_parser.Docstring | None:
    import docstring_parser
    from docstring_parser import DocstringStyle

    best: docstring_parser.Docstring | None = None
    for style in (DocstringStyle.GOOGLE, DocstringStyle.NUMPYDOC, DocstringStyle.REST):
        try:
            parsed = docstring_parser.parse(text, style=style)
        except Exception:  # whatever a parser makes of text that was not meant for it
            continue
        if best is None or len(parsed.meta) > len(best.meta):
            best = parsed
    return best


_KEEPS_ITS_LINE = re.compile(r"\s|[-*•+>|`]|\d+[.)]\s")


def _fold(text: str) -> str:
    """Join the lines of each paragraph; lists, indented lines and blank lines stay."""
    lines: list[str] = []
    for line in inspect.cleandoc(text).splitlines():
        joins = bool(lines and lines[-1] and line.strip()) and not _KEEPS_ITS_LINE.match(line)
        if joins and not lines[-1].startswith((" ", "`")):
            lines[-1] += " " + line.strip()
        else:
            lines.append(line.rstrip())
    return re.sub(r"\n{3,}", "\n\n", "\n".join(lines)).strip()
