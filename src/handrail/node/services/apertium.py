"""Translation by Apertium, the program: rules and dictionaries, no network, the same answer each time."""

from __future__ import annotations

import re
import shutil

from handrail.core.child_process import ask_program
from handrail.core.errors import BusError
from handrail.node.services.languages import guess_language
from handrail.node.services.translation import AUTO, Translation

_THREE = {
    "ca": "cat",
    "da": "dan",
    "de": "deu",
    "en": "eng",
    "eo": "epo",
    "es": "spa",
    "eu": "eus",
    "fr": "fra",
    "gl": "glg",
    "is": "isl",
    "it": "ita",
    "nl": "nld",
    "oc": "oci",
    "pl": "pol",
    "pt": "por",
    "ro": "ron",
    "ru": "rus",
    "sv": "swe",
    "uk": "ukr",
}
"""Newer pairs are named by three letters, older ones by two."""
_PAIR = re.compile(r"[A-Za-z_]{2,12}-[A-Za-z_]{2,12}")
_UNKNOWN = re.compile(r"\*(?=\w)")
_WORD = re.compile(r"\w+")


class ApertiumBackend:
    """A `Backend` over the installed pairs. Its confidence is the share of words that its dictionary had."""

    def __init__(self, program: str, *, seconds: float = 30) -> None:
        self._program = program
        self._seconds = seconds
        self._pairs: frozenset[str] | None = None

    @classmethod
    def installed(cls) -> ApertiumBackend | None:
        """The one that is on the path, if there is one."""
        program = shutil.which("apertium")
        return None if program is None else cls(program)

    async def translate(self, text: str, source: str, target: str, domain: str | None) -> Translation | None:
        source = (guess_language(text) or AUTO) if source == AUTO else source
        pair = await self._pair(source, target)
        if pair is None:
            return None
        if "*" in text:  # then a star of its own could not be told from its mark for unknown words
            return Translation((await self._run(["-u", pair], text)).strip("\n"), source)
        marked = (await self._run([pair], text)).strip("\n")
        words = len(_WORD.findall(text))
        known = 1 - len(_UNKNOWN.findall(marked)) / words if words else 0.0
        return Translation(_UNKNOWN.sub("", marked), source, round(max(known, 0.0), 3))

    async def _pair(self, source: str, target: str) -> str | None:
        if self._pairs is None:
            listed = await self._run(["-l"], "")
            self._pairs = frozenset(_PAIR.findall(listed))
        for first in (source, _THREE.get(source, source)):
            for second in (target, _THREE.get(target, target)):
                if f"{first}-{second}" in self._pairs:
                    return f"{first}-{second}"
        return None

    async def _run(self, arguments: list[str], text: str) -> str:
        command = (self._program, *arguments)
        try:
            code, output = await ask_program(command, text.encode("utf-8", "replace"), self._seconds)
        except TimeoutError:  # it is an OSError too
            raise BusError("timeout", f"Apertium gave no answer in {self._seconds:g} s") from None
        except OSError as error:
            raise BusError("not_implemented", f"Apertium cannot be started ({error.strerror}); install it") from error
        if code:
            raise BusError("internal_error", f"Apertium failed with exit code {code}")
        return output.decode("utf-8", "replace")
