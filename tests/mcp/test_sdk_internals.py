"""What we rely on in the official package is there, and only one module relies on it."""

from __future__ import annotations

import inspect
import re
from pathlib import Path

from mcp import Client
from mcp.client.auth import OAuthClientProvider
from mcp.client.session import ClientSession
from mcp.server.session import ServerSession
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager

import handrail.mcp
from handrail.mcp.sdk_internals import OpenOAuthProvider

HOOKS = {name for name in vars(OpenOAuthProvider) if re.match("_[a-z]", name)} - {"_abc_impl"}


def test_each_method_that_is_replaced_is_one_of_the_package() -> None:
    """An override of what is gone would never be called, and nobody would notice."""
    assert HOOKS and vars(OAuthClientProvider).keys() >= HOOKS
    assert "_get_token_endpoint" in vars(OAuthClientProvider)
    assert "_relist_tool" in vars(Client) and "validate_tool_result" in vars(ClientSession)
    assert "_admit_session" in vars(StreamableHTTPSessionManager)
    assert "self._connection" in inspect.getsource(ServerSession)


def test_no_other_module_uses_a_private_name_of_the_package() -> None:
    private = re.compile(rf"(from|import) mcp(_types)?(\.\w+)*\._|\.(_relist_tool|_admit_session|{'|'.join(HOOKS)})\b")
    home = Path(handrail.mcp.__file__).parent
    users = {path.name for path in home.rglob("*.py") if private.search(path.read_text())}
    assert users == {"sdk_internals.py"}
