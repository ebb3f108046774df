"""A row that is one program: started, killed somewhere, and started again."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from msgspec import Struct

from reliability.stage import Stage


class ProgramRow(Struct, frozen=True):
    """The program is a function of a folder. It asks for the payment or takes up what it asked for, and tells."""

    name: str
    killed: str
    program: Callable[[Path], None]
    preload: tuple[str, ...] = ()

    def play(self, stage: Stage) -> None:
        if not stage.start("program", self.program, stage.folder).wait():
            raise TimeoutError("the program did not end")
