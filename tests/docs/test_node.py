"""The page about the node says what the node does."""

from __future__ import annotations

from starlette.routing import Route

from handrail.node.server.app import build_app
from handrail.node.server.node import ServerLimits, SocketLimits
from handrail.node.server.page import UNDER
from tests.docs.test_tables import rows
from tests.node.server.http_node import NodeFixture


def test_every_limit_is_on_the_page_with_its_default() -> None:
    limits = ServerLimits()
    fields = [name for name in limits.__struct_fields__ if name != "sockets"]
    shown = [(name.strip("`"), default) for name, default, _ in rows("node.md", "## Limits")]
    assert shown == [(name, str(getattr(limits, name))) for name in fields]


def test_every_limit_of_a_socket_is_on_the_page_with_its_default() -> None:
    limits = SocketLimits()
    shown = [(name.strip("`"), default) for name, default, _ in rows("node.md", "### Of a socket")]
    assert shown == [(name, str(getattr(limits, name))) for name in limits.__struct_fields__]


async def test_every_endpoint_is_on_the_page() -> None:
    routes = build_app(NodeFixture(telemetry=list).server).routes
    paths = {route.path for route in routes if isinstance(route, Route)}
    shown = {row[0].strip("`").split()[1].partition("?")[0] for row in rows("node.md", "## Endpoints")}
    assert shown == paths | {"/", f"{UNDER}…"}
