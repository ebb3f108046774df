"""What replicas tell each other: PostgreSQL's LISTEN and NOTIFY, by topics.

One thread listens, on a connection of its own, from the first subscription on. It tells what was announced in
committed transactions, and only while it is connected: after a gap everybody is told `None`, and looks for themselves.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from contextlib import closing, suppress
from typing import TYPE_CHECKING

from handrail.core.backoff import longest_wait
from handrail.core.errors import HandrailError, StateError
from handrail.state.connections import connect, cut, load_psycopg
from handrail.state.url import StateUrl

if TYPE_CHECKING:
    import psycopg

logger = logging.getLogger(__name__)

Heard = Callable[[str | None], None]
"""Is called in the thread that listens: with a text, or with None where some may have been missed."""

_CHANNEL = "handrail"
_LONGEST = 7_900
"""Bytes of a payload that PostgreSQL takes."""
_LONGEST_WAIT = 5.0


def announce(connection: psycopg.Connection, topic: str, text: str = "") -> None:
    """Tell every replica that listens, once the transaction is committed. Texts are short: an id, not a document.

    Raises:
        StateError: The text is too long to be told.
    """
    payload = f"{topic}\n{text}"
    if len(payload.encode("utf-8", "surrogatepass")) > _LONGEST:
        raise StateError(f"an announcement of {topic!r} is longer than {_LONGEST} bytes")
    connection.execute("SELECT pg_notify(%s, %s)", (_CHANNEL, payload))


class Topics:
    """What a process hears of its state."""

    def __init__(self, url: StateUrl) -> None:
        self._url = url
        self._heard: dict[str, list[Heard]] = {}
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._closed = threading.Event()
        self._connection: psycopg.Connection | None = None
        self.listening: threading.Event = threading.Event()
        """Whether it is connected now."""

    def subscribe(self, topic: str, heard: Heard) -> Callable[[], None]:
        """Have announcements of a topic told, from now on or from when the server can be reached; then None is told
        first. Returns what ends it. `heard` must return at once."""
        with self._lock:
            self._heard.setdefault(topic, []).append(heard)
            if self._thread is None and not self._closed.is_set():
                self._thread = threading.Thread(target=self._listen, name="handrail-topics", daemon=True)
                self._thread.start()
            late = self.listening.is_set()
        if late:
            _tell(heard, None)

        def leave() -> None:
            with self._lock, suppress(ValueError):
                self._heard.get(topic, []).remove(heard)

        return leave

    def close(self) -> None:
        with self._lock:
            self._closed.set()
            self._wake()
            thread = self._thread
        if thread is not None and thread is not threading.current_thread():
            thread.join()

    def _listen(self) -> None:
        tries = 0
        while not self._closed.is_set():
            try:
                with closing(connect(self._url, idle_session_timeout="0")) as connection:
                    with self._lock:
                        if self._closed.is_set():
                            return
                        self._connection = connection
                    tries = 0
                    self._follow(connection)
            except (HandrailError, OSError, load_psycopg().Error) as error:
                if not self._closed.is_set() and tries == 0:
                    logger.warning("nothing is heard of the state at %s until it is back: %s", self._url, error)
            finally:
                self.listening.clear()
                with self._lock:
                    self._connection = None
            tries += 1
            self._closed.wait(longest_wait(tries, 0.1, _LONGEST_WAIT))

    def _follow(self, connection: psycopg.Connection) -> None:
        connection.execute(f"LISTEN {_CHANNEL}")
        self.listening.set()
        for heard in self._all():
            _tell(heard, None)
        for notice in connection.notifies():
            topic, _, text = notice.payload.partition("\n")
            for heard in self._listeners_of(topic):
                _tell(heard, text)

    def _listeners_of(self, topic: str) -> list[Heard]:
        with self._lock:
            return list(self._heard.get(topic, ()))

    def _all(self) -> list[Heard]:
        with self._lock:
            return [heard for each in self._heard.values() for heard in each]

    def _wake(self) -> None:
        """End the wait of the thread: the socket it waits on is shut down. It closes the connection itself."""
        if self._connection is not None:
            cut(self._connection)


def _tell(heard: Heard, text: str | None) -> None:
    try:
        heard(text)
    except Exception:
        logger.exception("what heard an announcement of the state failed")
