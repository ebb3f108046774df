"""A node with a few capabilities to call from a page, and a page that does nothing but call them.

It is for the page's side of the protocol alone: nothing here knows of conversations. The node is real and runs in a
thread of its own; the page watches its sockets, and can cut them.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from typing import Any

from playwright.sync_api import Browser, Page

from handrail.core.errors import UsageError
from handrail.desk.service.capabilities import CapabilityTable, Offered
from handrail.node.bus.request import RouteRequest
from handrail.node.capability_bus import CapabilityBus
from handrail.node.server.node import NodeServer, ServerLimits
from handrail.node.server.serving import serve
from handrail.node.tokens.admission import TokenAdmission
from handrail.node.tokens.identity import Identity
from handrail.node.tokens.scope import Scope
from handrail.node.tokens.token import issue
from handrail.node.tokens.token_store import TokenStore

PATIENCE = 30.0
MOST = 100_000
"""Bytes of a message."""
_ANY = {"type": "integer"}
WATCHED = """
globalThis.sockets = [];
globalThis.sent = [];
globalThis.cut = false;
const later = setTimeout.bind(globalThis);
globalThis.until = async (happens) => { while (!happens()) await new Promise((done) => later(done, 5)); };
globalThis.WebSocket = class extends WebSocket {
  constructor(...given) { super(...given); sockets.push(this); }
  send(message) { super.send(message); sent.push(JSON.parse(message)); if (cut) this.close(); }
};
"""
"""Sockets that tell what is said on them; while `cut` is set, each is closed as soon as something was. And a way to
wait that needs no `eval`, which the policy of the page forbids, and no clock, which a test may hold."""


class PageCapabilities:
    """The capabilities, and what became of their calls."""

    def __init__(self) -> None:
        self.forget()

    def forget(self) -> None:
        self.paid = 0
        self.asked: list[dict[str, Any]] = []
        self.cancelled = threading.Event()

    def capabilities(self) -> Iterator[Offered]:
        table = CapabilityTable({"text": {"type": "string"}, "to": _ANY, "hang": {"type": "boolean"}})
        yield table.answer("desk.echo", "What was said.", self._echo, "text")
        yield table.answer("desk.pay", "Pay.", self._pay, changes=True)
        yield table.answer("desk.fail", "Fail.", self._fail)
        yield table.stream("desk.break", "Break.", self._break, frames=("item",))
        yield table.stream("desk.count", "Count.", self._count, "to hang?", frames=("item",))

    async def _echo(self, text: str) -> Any:
        return {"text": text}

    async def _pay(self) -> Any:
        self.paid += 1
        return {"paid": self.paid}

    async def _fail(self) -> Any:
        raise UsageError("there is no such thing; look again")

    async def _break(self, request: RouteRequest) -> None:
        self.asked.append(request.input)
        raise RuntimeError("a mistake in the node")

    async def _count(self, request: RouteRequest) -> None:
        self.asked.append(request.input)
        for number in range(1, request.input["to"] + 1):
            await request.send("item", {"n": number})
        if request.input.get("hang"):
            try:
                await asyncio.Event().wait()
            finally:
                self.cancelled.set()


class BusNode:
    """The node; it can be ended and started again at the same address."""

    def __init__(self) -> None:
        self.works = PageCapabilities()
        self._identity = Identity.from_seed(bytes(32))
        self._store = TokenStore()
        self.token = self.token_for("*")
        self._port = 0
        self.url = ""
        self.start()

    def token_for(self, *capabilities: str, trust: Any = "trusted") -> str:
        return str(issue(self._identity, self._store, Scope.of(capabilities), trust=trust)[1])

    def start(self) -> None:
        self._ready: Future[str] = Future()
        self._thread = threading.Thread(target=self._run, name="post")
        self._thread.start()
        self.url = self._ready.result(PATIENCE)
        self._port = int(self.url.rpartition(":")[2])

    def stop(self) -> None:
        self._loop.call_soon_threadsafe(self._task.cancel)
        self._thread.join(PATIENCE)
        assert not self._thread.is_alive()

    def _run(self) -> None:
        with suppress(asyncio.CancelledError):
            asyncio.run(self._main())

    async def _main(self) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._loop, self._task = asyncio.get_running_loop(), task
        admission = TokenAdmission(node_id=self._identity.node_id, store=self._store)
        async with CapabilityBus(node_id=self._identity.node_id, admission=admission) as bus:
            bus.register_service(self.works)
            limits = ServerLimits(grace=0.1, body=MOST)
            server = NodeServer(bus=bus, identify=admission.identify, page=True, limits=limits)
            await serve(server, port=self._port, ready=self._ready.set_result)


@contextmanager
def bare_page(browser: Browser, url: str) -> Iterator[Page]:
    """The node's own page, under its policy, in which modules can be imported, and nothing runs yet."""
    context = browser.new_context(locale="en-GB")
    context.set_default_timeout(15_000)
    context.add_init_script(WATCHED)
    page = context.new_page()
    said: list[str] = []
    page.on("pageerror", lambda error: said.append(str(error)))
    page.route(f"{url}/page/main.js", lambda route: route.fulfill(body="", content_type="text/javascript"))
    page.goto(f"{url}/")
    try:
        yield page
    finally:
        context.close()
    assert not said, said
