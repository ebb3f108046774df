"""Almost-JSON to JSON, token by token; nothing is evaluated, and nothing is guessed that could change a value.

Taken for what they plainly are: raw line breaks in strings, single and triple quotes,
Python's literals and tuples, bare keys, trailing commas, missing closing brackets.
A text that ends inside a string or number, or after a colon or comma, is not completed.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

Token = tuple[str, str]
"""Its kind and its text."""

_TOKEN = re.compile(
    r'''
      (?P<space>\s++)
    | (?P<mark>[{}\[\](),:=])
    | (?P<triple>"""(?>(?:[^"\\]++|\\.|"(?!""))*)"""|\'\'\'(?>(?:[^'\\]++|\\.|'(?!''))*)\'\'\')
    | (?P<string>"[^"\\]*+(?:\\.[^"\\]*+)*+"|'[^'\\]*+(?:\\.[^'\\]*+)*+')
    | (?P<number>[-+]?[0-9][0-9.eE+-]*+)
    | (?P<word>[^\W\d][\w.-]*+)
    ''',
    re.VERBOSE | re.DOTALL,
)
_ESCAPE = re.compile(r'\\(?:u[0-9a-fA-F]{4}|x[0-9a-fA-F]{2}|.)|["\x00-\x1f]', re.DOTALL)
_LITERALS = {"True": "true", "False": "false", "None": "null", "true": "true", "false": "false", "null": "null"}
_CLOSES = {"{": "}", "[": "]", "(": ")"}
_MAX_DEPTH = 100
_WRITTEN = {"(": "[", ")": "]"}


class UnreadableJson(Exception):
    """The text can be read in more than one way, or in none."""


def json_tokens(text: str) -> list[Token]:
    """The text's tokens without its spaces, except that one at the very end stays: it ends a number.

    Raises:
        UnreadableJson: Something in it is no token.
    """
    found: list[Token] = []
    position = 0
    while position < len(text):
        token = _TOKEN.match(text, position)
        if token is None:
            raise UnreadableJson
        position = token.end()
        kind = token.lastgroup or ""
        if kind != "space" or position == len(text):
            found.append((kind, token[0]))
    return found


def strict_json(text: str) -> str:
    """One value as JSON. What it still gets wrong, the strict reader refuses.

    Raises:
        UnreadableJson: There is no one reading of it.
    """
    return tokens_as_json(json_tokens(text))


def tokens_as_json(found: Sequence[Token]) -> str:
    """Tokens of one value as JSON; see `strict_json`."""
    out: list[str] = []
    stack: list[str] = []
    previous = ""
    for index, (kind, token) in enumerate(found):
        match kind:
            case "space":
                continue
            case "mark":
                _mark(token, out, stack)
            case "string" | "triple":
                out.append(json_string(token[3:-3] if kind == "triple" else token[1:-1]))
            case "word":
                out.append(_word(token, is_key=_follows(found, index, ":")))
            case _:
                out.append(token)
        previous = token if kind == "mark" else kind
    if stack:
        ends_in_space = found[-1][0] == "space"
        if previous in _CLOSES or previous in ",:=" or (previous == "number" and not ends_in_space):
            raise UnreadableJson
        out.extend(_WRITTEN.get(_CLOSES[opened], _CLOSES[opened]) for opened in reversed(stack))
    return " ".join(out)


def json_string(content: str) -> str:
    """What stood between quotes, as a JSON string."""
    return f'"{_ESCAPE.sub(_escaped, content)}"'


def split_at_commas(found: Sequence[Token]) -> Iterator[Sequence[Token]]:
    """Cut at the commas that are in no bracket."""
    depth = start = 0
    for index, (kind, token) in enumerate(found):
        if kind != "mark":
            continue
        depth += (token in _CLOSES) - (token in "}])")
        if token == "," and depth == 0:
            yield found[start:index]
            start = index + 1
    if start < len(found):
        yield found[start:]


def _mark(token: str, out: list[str], stack: list[str]) -> None:
    if token in _CLOSES:
        if len(stack) >= _MAX_DEPTH:
            raise UnreadableJson
        stack.append(token)
    elif token in "}])":
        if token not in (_CLOSES[opened] for opened in stack):
            raise UnreadableJson
        if out[-1] == ",":
            out.pop()
        while (opened := _CLOSES[stack.pop()]) != token:
            out.append(_WRITTEN.get(opened, opened))
    out.append(_WRITTEN.get(token, token))


def _word(token: str, *, is_key: bool) -> str:
    if is_key:
        return f'"{token}"'
    if token not in _LITERALS:
        raise UnreadableJson
    return _LITERALS[token]


def _follows(found: Sequence[Token], index: int, mark: str) -> bool:
    return index + 1 < len(found) and found[index + 1] == ("mark", mark)


def _escaped(found: re.Match[str]) -> str:
    text = found[0]
    match text[:2]:
        case '"':
            return '\\"'
        case "\\'":
            return "'"
        case "\\x":
            return f"\\u00{text[2:]}" if len(text) == 4 else "\\\\x"
        case "\\u":
            return text if len(text) == 6 else "\\\\u"
    if len(text) == 1:
        return _control(text)
    return text if text[1] in '"\\/bfnrt' else "\\\\" + _control(text[1])


def _control(character: str) -> str:
    return f"\\u{ord(character):04x}" if character < " " else character
