"""What stands for a held context inside a REPL: Python that CPython and Monty both run.

Monty lets no special method wait for the host, so everything has a plain method;
`len`, slices and `in` are there besides, where the interpreter can have them.
"""

from __future__ import annotations

from handrail.run.code.bridge import shelter_builtins

TEXT = """
class Text:
    def __init__(self, host, name, size, line_count):
        self._host_name = host
        self.name = name
        self.size = size
        self.line_count = line_count

    def read(self, start=0, length=100000):
        return _host(self._host_name + ".read", {"name": self.name, "start": start, "length": length})

    def lines(self, first=0, count=100):
        return _host(self._host_name + ".lines", {"name": self.name, "first": first, "count": count})

    def count(self, text):
        return _host(self._host_name + ".count", {"name": self.name, "text": text})

    def search(self, pattern, limit=20, around=80, start=0):
        asked = {"name": self.name, "pattern": pattern, "limit": limit, "around": around, "start": start}
        return _host(self._host_name + ".search", asked)

    def chunks(self, size, overlap=0):
        if size < 1 or overlap < 0 or overlap >= size:
            raise ValueError("chunks: size must be at least 1, and overlap at least 0 and less than size")
        found = []
        start = 0
        while start < self.size:
            end = min(start + size, self.size)
            found.append([start, end])
            if end == self.size:
                break
            start = start + size - overlap
        return found

    def __repr__(self):
        return "<" + str(self.size) + " characters, held outside of the REPL; use .read(start, length)>"

    def __len__(self):
        return self.size

    def __getitem__(self, part):
        try:
            if isinstance(part, int):
                at = part + self.size if part < 0 else part
                if not 0 <= at < self.size:
                    raise IndexError("the text has " + str(self.size) + " characters")
                return self.read(at, 1)
            start, stop, step = part.indices(self.size)
            if step != 1:
                raise ValueError("a held text has slices of step 1 only; use .read(start, length) first")
            return self.read(start, max(stop - start, 0))
        except NotImplementedError:
            raise TypeError("a held text has no slices here; use .read(start, length)")

    def __contains__(self, text):
        try:
            return text == "" or self.count(text) > 0
        except NotImplementedError:
            raise TypeError("a held text has no `in` here; use .count(text) or .search(pattern)")
"""

FILES = """
class Files:
    def __init__(self, host, files):
        self._host_name = host
        self.files = files

    def open(self, name):
        found = _host(self._host_name + ".open", {"name": name})
        return Text(self._host_name, name, found["size"], found["lines"])

    def search(self, pattern, limit=20, around=80, names="*"):
        asked = {"name": None, "pattern": pattern, "limit": limit, "around": around, "start": 0, "names": names}
        return _host(self._host_name + ".search", asked)

    def __repr__(self):
        return "<" + str(len(self.files)) + " texts, held outside of the REPL; use .files and .open(name)>"

    def __len__(self):
        return len(self.files)
"""


def of_text(variable: str, name: str, size: int, lines: int) -> str:
    return f"{shelter_builtins(TEXT)}\n{variable} = Text({variable!r}, {name!r}, {size}, {lines})\n"


def of_files(variable: str, listing: str) -> str:
    """The list of files is in the variable `listing`."""
    return f"{shelter_builtins(TEXT + FILES)}\n{variable} = Files({variable!r}, {listing})\n"
