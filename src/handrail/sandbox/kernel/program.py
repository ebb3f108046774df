"""CPython inside: takes cells from one socket, runs them in one namespace, and answers with what became of them.

The host hands this file over as text, so it knows nothing but the standard library and little of that. It keeps
nothing safe: the code that it runs shares the interpreter and can change all of this. What must hold is held by
the host, which believes none of it, and by the jail.

Every frame is four bytes of length (big-endian) and JSON. A number on the control socket interrupts the cell of
that number, and its end ends everything: so nothing here outlives the host.
"""

from __future__ import annotations

import _thread
import builtins
import fcntl
import io
import json
import linecache
import os
import random
import resource
import signal
import sys
import traceback
import types

TYPE_CHECKING = False  # without importing typing, which is half of the time that it takes to start
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any

MAX_DEPTH = 90
MAX_INTEGER = 10**399
MAX_VALUES = 250_000
"""In what a cell sends, at any depth: the host looks at each of them."""
REPR_CHARS = 10_000
ERROR_CHARS = 20_000
NAMES = 1_000

_CHUNK = 2**20
_STACK = 2 * 2**20
"""Bytes of each thread, all of which count as memory: the usual eight megabytes would leave room for a few only."""
_RESERVE = 8 * 2**20
"""Bytes that a cell does not get, so that what became of it can still be said."""
OUT_OF_MEMORY = 77
"""The exit code, if there was not even enough for that."""
_AWAIT_AT_THE_TOP = 0x2000  # ast.PyCF_ALLOW_TOP_LEVEL_AWAIT, without importing ast
_COROUTINE = 0x80  # inspect.CO_COROUTINE, without importing inspect
_SET_OWNER_THREAD = 15  # fcntl.F_SETOWN_EX of Linux, which has no name in Python
_PLAIN = {str, float, bool, type(None)}
_name_of_type: Callable[[type], str] = type.__dict__["__name__"].__get__


class _Closed(Exception):
    """The host has hung up."""


def to_json(value: Any, most: float = float("inf")) -> bytes:
    """A value as JSON, exactly: what JSON does not have is refused and not made into something like it.

    Raises:
        ValueError: It is not JSON, or is nested too deeply, or has too long a number, or text that is not Unicode, or
            more than so many values.
    """
    try:
        text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
        _check(value, most)
        return text.encode()
    except UnicodeEncodeError:
        raise ValueError("it has text that is not Unicode (half of a surrogate pair)") from None
    except RecursionError:
        raise ValueError(f"it is nested more than {MAX_DEPTH} deep") from None
    except (TypeError, ValueError) as error:
        raise ValueError(f"it is not JSON: {error}") from None


def _check(value: Any, most: float) -> None:
    level, depth, values = [value], 0, 0
    while level:
        depth += 1
        below: list[Any] = []
        for item in level:
            if type(item) in _PLAIN:
                continue
            if isinstance(item, dict):
                if any(type(key) is not str for key in item):
                    raise TypeError("a key is not text")
                values += len(item) or 1
                below.extend(item.values())
            elif isinstance(item, (list, tuple)):
                values += len(item) or 1
                below.extend(item)
            elif isinstance(item, int) and not -MAX_INTEGER < item < MAX_INTEGER:
                raise ValueError("a number has more than 399 digits")
        if below and depth >= MAX_DEPTH:
            raise ValueError(f"it is nested more than {MAX_DEPTH} deep")
        if values > most:
            raise ValueError(f"it has more than {most} values; send less, or send it as text")
        level = below


class Kernel:
    """One interpreter and its variables."""

    def __init__(self, sock: int, control: int) -> None:
        self._sock = sock
        self._control = control
        self._module = types.ModuleType("__main__")
        self._variables = self._module.__dict__
        self._given: dict[str, Any] = {}
        self._talking = _thread.allocate_lock()
        self._main = _thread.get_ident()
        self._process = os.getpid()
        self._cell = 0
        self._calls = 0
        self._is_waiting = False
        self._is_due = False
        self._reserve: bytearray | None = None
        self._message_bytes = _CHUNK
        self._streams = (_stream(1), _stream(2))

    def serve(self) -> None:
        """Take frames until the host hangs up."""
        self._variables["_host"] = self._ask
        sys.modules["__main__"] = self._module
        sys.argv = [""]
        sys.stdout, sys.stderr = self._streams
        self._listen_to_control()
        self._set_up(json.loads(self._receive()))
        self._send(b'{"type":"ready"}')
        while True:
            message = json.loads(self._receive())
            match message["type"]:
                case "cell":
                    self._run(message["cell"], message["code"], message["peek"], message["seed"])
                case "put":
                    self._put(message)

    def _set_up(self, message: dict[str, Any]) -> None:
        self._message_bytes = message["message_bytes"]
        if message["lockdown"]:
            exec(message["lockdown"], {})
        _bound_memory(message["memory_bytes"])
        _thread.stack_size(_STACK)

    def _put(self, message: dict[str, Any]) -> None:
        name = message["name"]
        self._variables[name] = self._given[name] = message["value"]
        self._send(_bound(message["cell"], ""))

    def _run(self, number: int, code: str, peek: list[str], seed: int) -> None:
        self._calls, self._is_due = 0, False
        self._cell = number
        try:
            failure: BaseException | None = None
            try:
                self._restore_streams()
                random.seed(f"{seed}:{number}")
                self._reserve = _reserve()
                self._execute(code, f"<cell {number}>")
            except BaseException as error:
                self._reserve = None  # before anything that takes memory
                failure = error
            self._reserve = None
            body = self._report(number, failure, peek)
            failure = None
        except BaseException as error:
            body = _done(number, f"{_name_of_type(type(error))}: ended while it was looked at", error, b"{}", b"{}")
        with self._talking:
            self._cell = 0
        self._flush()
        if self._is_forked():
            os._exit(0)
        self._send(body)

    def _restore_streams(self) -> None:
        output, errors = self._streams
        self._streams = (_open_again(output, 1), _open_again(errors, 2))
        sys.stdout, sys.stderr = self._streams

    def _execute(self, code: str, name: str) -> None:
        linecache.cache[name] = (len(code), None, code.splitlines(True), name)
        compiled = compile(code, name, "exec", flags=_AWAIT_AT_THE_TOP, dont_inherit=True)
        if not compiled.co_flags & _COROUTINE:
            exec(compiled, self._variables)
            return
        # An interrupt in the middle of the import would leave half of it: it waits for the end.
        self._is_waiting = True
        try:
            import asyncio
        finally:
            self._is_waiting = False
        self._heed_interrupt()
        asyncio.run(eval(compiled, self._variables))

    def _report(self, number: int, failure: BaseException | None, peek: list[str]) -> bytes:
        error = "" if failure is None else _traceback(failure)
        values, left = [], self._message_bytes - 2 * ERROR_CHARS
        for name in peek:
            if name in self._variables:
                shown = _shown(self._variables[name], left, MAX_VALUES // len(peek))
                left -= len(shown)
                values.append(to_json(name) + b":" + shown)
        names = to_json(dict(self._names()))
        return _done(number, error, failure, b"{" + b",".join(values) + b"}", names)

    def _names(self) -> Iterator[tuple[str, str]]:
        made = [
            (name, value)
            for name, value in self._variables.items()
            if type(name) is str and not name.startswith("_") and len(name) <= 200
            if not (name in self._given and self._given[name] is value)
        ]
        for name, value in made[:NAMES]:
            yield _unicode(name), _unicode(_name_of_type(type(value))[:200])

    def _ask(self, name: str, value: Any = None) -> Any:
        """Ask the host, and wait for its answer."""
        if type(name) is not str:
            raise TypeError("the name of what the host is asked for must be text")
        asked, given = to_json(name), to_json(value, MAX_VALUES)
        if len(asked) + len(given) > self._message_bytes:
            raise ValueError(f"{len(given)} bytes cannot cross: at most {self._message_bytes} can, with the name")
        message = json.loads(self._exchange(asked, given))
        self._heed_interrupt()
        if message["type"] == "answer":
            return message["value"]
        raise _exception(message["kind"], message["message"])

    def _heed_interrupt(self) -> None:
        """End the cell if it was interrupted while the interrupt had to wait."""
        if self._is_due:
            self._is_due = False
            raise KeyboardInterrupt

    def _is_forked(self) -> bool:
        """Whether this is a copy that a cell has made of the interpreter. It has its socket, and must not use it."""
        return os.getpid() != self._process

    def _exchange(self, name: bytes, value: bytes) -> bytes:
        if self._is_forked():
            raise RuntimeError("the host can be asked only by the process of the cell, not by one that it has forked")
        with self._talking:
            if not self._cell:
                raise RuntimeError("the host can be asked only while a cell runs")
            try:
                # An interrupt in the middle of a frame would leave half of it unread: it waits for the end.
                self._is_waiting = _thread.get_ident() == self._main
                self._flush()
                self._calls += 1
                head = f'{{"type":"call","cell":{self._cell},"call":{self._calls},"name":'.encode()
                self._send(head + name + b',"value":' + value + b"}")
                return self._receive()
            finally:
                self._is_waiting = False

    def _listen_to_control(self) -> None:
        signal.signal(signal.SIGIO, self._controlled)
        flags = fcntl.fcntl(self._control, fcntl.F_GETFL)
        if sys.platform == "linux":
            # To the one thread that runs cells, or a blocked one would not be woken.
            owner = (0).to_bytes(4, sys.byteorder) + _thread.get_native_id().to_bytes(4, sys.byteorder)
            fcntl.fcntl(self._control, _SET_OWNER_THREAD, owner)
        else:
            fcntl.fcntl(self._control, fcntl.F_SETOWN, os.getpid())
        fcntl.fcntl(self._control, fcntl.F_SETFL, flags | os.O_NONBLOCK | os.O_ASYNC)
        self._controlled(signal.SIGIO, None)

    def _controlled(self, number: int, frame: object) -> None:
        try:
            said = os.read(self._control, 4096)
        except BlockingIOError:
            return
        if not said:
            os._exit(0)
        if int.from_bytes(said[-4:], "big") != self._cell:
            return
        if self._is_waiting:
            self._is_due = True
            return
        raise KeyboardInterrupt

    def _flush(self) -> None:
        for stream in (*self._streams, sys.stdout, sys.stderr):
            try:
                stream.flush()
            except Exception:  # the cell closed it, or put something else in its place
                continue

    def _send(self, body: bytes) -> None:
        rest = memoryview(len(body).to_bytes(4, "big") + body)
        while rest:
            rest = rest[os.write(self._sock, rest) :]

    def _receive(self) -> bytes:
        return self._read(int.from_bytes(self._read(4), "big"))

    def _read(self, size: int) -> bytes:
        data = bytearray()
        while len(data) < size:
            chunk = os.read(self._sock, min(size - len(data), _CHUNK))
            if not chunk:
                raise _Closed
            data += chunk
        return bytes(data)


def _bound_memory(limit: int) -> None:
    _, hard = resource.getrlimit(resource.RLIMIT_AS)
    most = limit if hard == resource.RLIM_INFINITY else min(hard, limit)
    resource.setrlimit(resource.RLIMIT_AS, (most, most))


def _reserve() -> bytearray | None:
    try:
        bytearray(2 * _RESERVE)  # as much must be left for the cell
        return bytearray(_RESERVE)
    except MemoryError:  # a cell may still free what an earlier one has filled
        return None


def _stream(fd: int) -> io.TextIOWrapper:
    raw = io.BufferedWriter(io.FileIO(fd, "w", closefd=False))
    return io.TextIOWrapper(raw, encoding="utf-8", errors="backslashreplace", newline="\n", line_buffering=True)


def _open_again(stream: io.TextIOWrapper, fd: int) -> io.TextIOWrapper:
    return _stream(fd) if stream.closed else stream


def _bound(number: int, error: str) -> bytes:
    return b'{"type":"bound","cell":%d,"error":%b}' % (number, to_json(error))


def _done(number: int, error: str, failure: BaseException | None, values: bytes, names: bytes) -> bytes:
    memory = b"true" if isinstance(failure, MemoryError) else b"false"
    head = b'{"type":"done","cell":%d,"error":%b,"memory":%b' % (number, to_json(error), memory)
    return head + b',"values":' + values + b',"names":' + names + b"}"


def _shown(value: Any, limit: int, most: int) -> bytes:
    """As JSON, or else as the beginning of its `repr`."""
    try:
        shown = to_json(value, most)
        if len(shown) <= limit:
            return shown
        text = value if type(value) is str else repr(value)
    except Exception:
        text = _repr(value)
    return to_json(_unicode(text[: min(REPR_CHARS, max(limit // 8, 0))]))


def _repr(value: Any) -> str:
    try:
        return str(repr(value))
    except Exception as error:
        return f"<{_name_of_type(type(value))}, whose repr raised {_name_of_type(type(error))}>"


def _unicode(text: str) -> str:
    return str(text).encode("utf-8", "backslashreplace").decode()


def _exception(kind: str, message: str) -> BaseException:
    found = getattr(builtins, kind, None)
    if isinstance(found, type) and issubclass(found, (Exception, KeyboardInterrupt)):
        try:
            return found(message)
        except TypeError:  # it wants more than a message
            pass
    return RuntimeError(f"{kind}: {message}")


def _traceback(failure: BaseException) -> str:
    """What was raised and where, in the cells' own lines."""
    told = traceback.TracebackException.from_exception(failure, compact=True)
    _keep_own_lines(told, set())
    text = _unicode("".join(told.format())).rstrip("\n")
    if len(text) <= ERROR_CHARS:
        return text
    half = ERROR_CHARS // 2
    return f"{text[:half]}\n… {len(text) - 2 * half} characters left out …\n{text[-half:]}"


def _keep_own_lines(told: traceback.TracebackException | None, seen: set[int]) -> None:
    if told is None or id(told) in seen:
        return
    seen.add(id(told))
    own = [line for line in told.stack if line.filename.startswith("<cell ")]
    told.stack = traceback.StackSummary.from_list(own)
    _keep_own_lines(told.__cause__, seen)
    _keep_own_lines(told.__context__, seen)
    for each in told.exceptions or ():
        _keep_own_lines(each, seen)


def main() -> None:
    sock, control = int(sys.argv[1]), int(sys.argv[2])
    for fd in (sock, control):
        os.set_inheritable(fd, False)
    try:
        Kernel(sock, control).serve()
    except (_Closed, BrokenPipeError, ConnectionResetError):
        os._exit(0)
    except MemoryError:
        os._exit(OUT_OF_MEMORY)


if __name__ == "__main__":
    main()
