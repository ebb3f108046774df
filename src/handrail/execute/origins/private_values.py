"""Private values of a run, and whether one leaves in what a call is given, as it is or in a usual encoding."""

from __future__ import annotations

import base64
import binascii
import codecs
import html
import re
import unicodedata
from collections.abc import Iterator
from decimal import Decimal
from typing import Any
from urllib.parse import unquote_plus

from handrail.execute.origins.result_records import Record
from handrail.execute.origins.written_numbers import as_number, number_readings
from handrail.tools.result_fields import Field

MOST = 400_000
"""Characters of private text that are compared. With more, nothing is known not to hold some of it."""
_RUN = 24
"""Letters in a row that are no accident."""
_TOKEN = re.compile(r"[\w.+-]+@[\w.-]+\w|[^\W_]*\d[^\W_]*(?:[.,]\d+)*")
_BASE64 = re.compile(r"[A-Za-z0-9+/_-]{8,}={0,2}")
_HEX = re.compile(r"(?:[0-9a-fA-F]{2}[\s:]?){4,}")
_ROUNDS = 3
_MOST_FORMS = 200


class PrivateValues:
    """What the private fields of a run hold."""

    __slots__ = ("_fields", "_size")

    def __init__(self) -> None:
        self._fields: list[tuple[Record, Field, _Compared]] = []
        self._size = 0

    def __bool__(self) -> bool:
        return bool(self._fields) or self.is_full

    @property
    def is_full(self) -> bool:
        """Whether there is more than is compared."""
        return self._size > MOST

    def add(self, record: Record, field: Field) -> None:
        """Take in a private field."""
        compared = _Compared(field.value)
        if compared.whole or compared.tokens or compared.number is not None:
            self._size += len(compared.whole)
            if not self.is_full:
                self._fields.append((record, field, compared))

    def in_text(self, texts: list[str]) -> Iterator[tuple[Record, Field]]:
        """The private fields of which something stands in these texts, alone or joined."""
        if not self._fields:
            return
        forms = _forms(" ".join(texts)) | _forms("".join(texts))
        sent = [_Sent(form) for form in forms]
        for record, field, compared in self._fields:
            if any(compared.is_in(each) for each in sent):
                yield record, field


class _Sent:
    """One reading of what leaves."""

    __slots__ = ("letters", "numbers", "tokens")

    def __init__(self, text: str) -> None:
        self.letters = letters_of(text)
        self.tokens = {token.casefold().rstrip(".,") for token in _TOKEN.findall(text)}
        self.numbers: set[Decimal] = set()
        for token in re.findall(r"\d[\d.,'’]*", text)[:5_000]:
            if len(token) <= 24:
                try:
                    self.numbers |= number_readings(token.strip(".,'’"))
                except ArithmeticError:
                    continue


class _Compared:
    """One private value as it is looked for."""

    __slots__ = ("number", "runs", "tokens", "whole")

    def __init__(self, value: Any) -> None:
        self.number: Decimal | None = None
        self.tokens: frozenset[str] = frozenset()
        self.whole = ""
        if isinstance(value, bool) or value is None:
            self.runs = 0
            return
        number = as_number(value)
        if number is not None and sum(map(str.isdigit, str(abs(number)))) >= 2:
            self.number = abs(number)
        if isinstance(value, str):
            letters = letters_of(value)
            self.whole = letters if len(letters) >= 3 else ""
            found = {token.casefold().rstrip(".,") for token in _TOKEN.findall(value)}
            self.tokens = frozenset(each for each in found if len(each) >= 4)
        elif self.number is not None:
            digits = letters_of(str(value))
            self.whole = digits if len(digits) >= 5 else ""
        self.runs = _RUN

    def is_in(self, sent: _Sent) -> bool:
        """Whether it leaves: all of it, a long piece of it, or a number or an address in it."""
        if self.number is not None and self.number in sent.numbers:
            return True
        if not self.tokens.isdisjoint(sent.tokens):
            return True
        if not self.whole:
            return False
        if len(self.whole) <= self.runs:
            return self.whole in sent.letters if len(self.whole) >= 5 else self.whole in sent.tokens
        step = self.runs // 2
        return any(
            self.whole[at : at + step * 2] in sent.letters for at in range(0, len(self.whole) - step * 2 + 1, step)
        ) or any(token in sent.letters for token in self.tokens if len(token) >= 6)


def letters_of(text: str) -> str:
    """The letters and digits of a text, without case, spaces and signs, in one spelling."""
    return "".join(letter for letter in unicodedata.normalize("NFKC", text).casefold() if letter.isalnum())


def _forms(text: str) -> set[str]:
    """A text, and what it is when it is decoded in the usual ways."""
    found = {text}
    new = {text}
    for _ in range(_ROUNDS):
        new = {form for each in new for form in _decoded(each)} - found
        found |= new
        if not new or len(found) > _MOST_FORMS:
            break
    for each in list(found)[:_MOST_FORMS]:
        found.add(each[::-1])
        found.add(codecs.decode(each, "rot13"))
    return found


def _decoded(text: str) -> Iterator[str]:
    yield unquote_plus(text)
    yield html.unescape(text)
    if "\\" in text:
        yield re.sub(r"\\u([0-9a-fA-F]{4})|\\x([0-9a-fA-F]{2})", lambda m: chr(int(m[1] or m[2], 16)), text)
    for run in _BASE64.findall(text)[:50]:
        bare = run.rstrip("=").replace("-", "+").replace("_", "/")
        try:
            yield base64.b64decode(bare + "=" * (-len(bare) % 4)).decode()
        except (binascii.Error, UnicodeDecodeError, ValueError):
            continue
    for run in _HEX.findall(text)[:50]:
        try:
            yield bytes.fromhex(re.sub(r"[\s:]", "", run)).decode()
        except ValueError:
            continue
