"""A shop in a folder: its book of payments, its journal, the processes of one row, and what its customer was told."""

from __future__ import annotations

import re
import socket
import time
from collections.abc import Callable
from contextlib import suppress
from multiprocessing.context import ForkServerContext
from pathlib import Path
from typing import Any, Literal

import msgspec
from msgspec import Struct

from reliability.moments import Moment, lines, note, step
from reliability.processes import MortalProcess, Start, handrail
from reliability.wires import StdioWire, TcpWire

PAID = "paid 500 cents to ada"
ARGUMENTS: dict[str, Any] = {"to": "ada", "cents": 500}
Kind = Literal["paid", "in doubt", "not paid", "nothing"]
_PATIENCE = 60.0
_SETTLE = re.compile(r"handrail confirm settle (\S+) ([^\s;)]+)")


class Told(Struct, frozen=True):
    """What the customer was told in the end, if anything."""

    kind: Kind
    text: str = ""


def pay(folder: Path) -> str:
    """The payment: one line in the book. It cannot be taken back, and nobody can look it up but a person."""
    step("before the payment")
    note(folder / "book.txt", PAID)
    step("after the payment")
    return PAID


def tell(folder: Path, text: str) -> None:
    """Note what the customer was told, in the process of the customer."""
    note(folder / "told.jsonl", msgspec.json.encode(text).decode())


def was_told(folder: Path, text: str) -> bool:
    """Whether the customer was told this before."""
    return msgspec.json.encode(text).decode() in lines(folder / "told.jsonl")


def told_by(text: str) -> Told:
    """What a text means to a customer who reads it."""
    if PAID in text:
        return Told("paid", text)
    return Told("in doubt" if "not known" in text or "in_doubt" in text else "not paid", text)


class Stage:
    """One try of one row: a folder, and the processes in it. The first life may have a death, the later ones none."""

    def __init__(self, folder: Path, context: ForkServerContext, death: Moment | None = None) -> None:
        self.folder = folder
        self.journal: Path = folder / "journal.db"
        self.environ = {
            "HANDRAIL_JOURNAL": str(self.journal),
            "XDG_STATE_HOME": str(folder / "state"),
            "XDG_CONFIG_HOME": str(folder / "config"),
            "XDG_DATA_HOME": str(folder / "data"),
        }
        self.moments: list[Moment] = []
        """What could have been the last moment of somebody in the first life."""
        self.died: Moment | None = None
        """When somebody was killed: chunks of TCP do not come the same each time."""
        self._context = context
        self._death = death
        self._running: dict[str, list[MortalProcess]] = {}
        self._wires: dict[tuple[str, str], StdioWire | TcpWire] = {}
        self._ports: dict[str, int] = {}
        self._heard = 0
        self._first = True

    # ── what a row uses ──────────────────────────────────────────────────────────────

    def start(
        self, role: str, target: Callable[..., Any], *arguments: Any, wire: socket.socket | None = None
    ) -> MortalProcess:
        """Start a process of the row: a function of a module, in the folder. It dies at its step if it is to."""
        earlier = self._running.setdefault(role, [])
        death = self._death
        last = death.number if self._first and not earlier and death is not None and death.place == role else None
        process = MortalProcess(
            self._context, Start(role, self.folder, self.environ, last), target, *arguments, wire=wire
        )
        earlier.append(process)
        return process

    def find(self, role: str) -> MortalProcess | None:
        """The process of this role, if it is alive."""
        return next((each for each in reversed(self._running.get(role, [])) if each.alive), None)

    def stdio_wire(self, near: str, far: str, target: Callable[..., Any], *arguments: Any) -> list[str]:
        """The command by which `near` starts `far`, which runs `target` then. It is the same in each life."""

        def begin(theirs: socket.socket) -> Callable[[], None]:
            return self.start(far, target, *arguments, wire=theirs).terminate

        wire = self._wires.get((near, far))
        if not isinstance(wire, StdioWire):
            path = self.folder / f"{near}-{far}.sock"
            wire = self._wires[near, far] = StdioWire(near, far, self.kill, self._death, path, begin)
        return wire.command

    def tcp_wire(self, near: str, far: str, port: int) -> int:
        """The port by which `near` reaches `far`, which listens at `port`. It is the same in each life."""
        wire = self._wires.get((near, far))
        if not isinstance(wire, TcpWire):
            wire = self._wires[near, far] = TcpWire(near, far, self.kill, self._death, port)
        return wire.port

    def serve(self, role: str, target: Callable[..., Any], *arguments: Any) -> int:
        """The port at which this process listens, which is its last argument. It is started if it is dead."""
        if role not in self._ports:
            with socket.create_server(("127.0.0.1", 0)) as door:
                self._ports[role] = door.getsockname()[1]
        port = self._ports[role]
        if self.find(role) is None:
            process = self.start(role, target, *arguments, port)
            _wait_until_it_listens(process, port)
        return port

    def kill(self, role: str, moment: Moment) -> None:
        """Kill the processes of this role that are alive."""
        for process in list(self._running.get(role, ())):
            if process.alive:
                process.kill()
                self.died = moment

    # ── what the sweep uses ──────────────────────────────────────────────────────────

    @property
    def payments(self) -> int:
        return len(lines(self.folder / "book.txt"))

    def heard(self) -> Told:
        """What the customer was told since this was last asked."""
        said = lines(self.folder / "told.jsonl")[self._heard :]
        self._heard += len(said)
        return told_by(msgspec.json.decode(said[-1], type=str)) if said else Told("nothing")

    def end_life(self) -> None:
        """A life is over. The first one had the moments; after it nobody is killed."""
        if not self._first:
            return
        self._first = False
        for role in self._running:
            steps = lines(self.folder / f"{role}.steps")
            self.moments += [Moment(role, role, number, what) for number, what in enumerate(steps)]
        for wire in self._wires.values():
            wire.spare()
            self.moments += wire.seen
        death = self._death
        if death is not None and death.place in self._running:
            steps = lines(self.folder / f"{death.place}.steps")
            if len(steps) > death.number:
                self.died = msgspec.structs.replace(death, what=steps[death.number])

    def settle(self, told: Told) -> bool:
        """A person looks into the book and says what became of the call in doubt; whether it was paid."""
        found = _SETTLE.search(told.text)
        assert found is not None, f"nothing says how to settle it: {told.text}"
        paid = self.payments > 0
        said = ("--ran", PAID) if paid else ("--not-run",)
        words = "--journal", str(self.journal), "confirm", "settle", found[1], found[2], *said
        person = MortalProcess(self._context, Start("person", self.folder, self.environ), handrail, *words)
        assert person.wait(), "the person did not end"
        return paid

    def logs(self) -> list[str]:
        """The last words of each process, for whoever looks for a mistake."""
        found = {path.stem: path.read_text(errors="replace").strip() for path in sorted(self.folder.glob("*.log"))}
        return [f"the {role} wrote: {text[-2000:]}" for role, text in found.items() if text]

    def close(self) -> None:
        self.end_life()
        for processes in self._running.values():
            for process in processes:
                process.end()
        for wire in self._wires.values():
            wire.close()


def _wait_until_it_listens(process: MortalProcess, port: int) -> None:
    """Until it can be connected to, or it is dead."""
    end = time.monotonic() + _PATIENCE
    while process.alive:
        with suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
            return
        if time.monotonic() > end:
            raise TimeoutError(f"the {process.role} does not listen")
        time.sleep(0.01)
