"""The standard ensemble `io`: files, HTTP and SQLite, confined to what the settings allow.

What the settings do not mention has no tool: without roots there is no `read_file`,
without hosts no `http_fetch`, without databases no `sqlite_query`.
"""

from __future__ import annotations

from handrail.library.io.settings import IoLimits, IoSettings
from handrail.tools.ensemble import Ensemble
from handrail.tools.tool import Tool

__all__ = ["IoLimits", "IoSettings", "io_ensemble"]


def io_ensemble(settings: IoSettings) -> Ensemble:
    """Make tools for exactly what the settings allow."""
    return Ensemble("io", [*_files(settings), *_fetch(settings), *_databases(settings)])


def _files(settings: IoSettings) -> list[Tool]:
    if not settings.roots:
        return []
    from handrail.library.io.change_tools import write_tools
    from handrail.library.io.confined_files import ConfinedFiles
    from handrail.library.io.edit_file import edit_tool
    from handrail.library.io.find_text import find_tool
    from handrail.library.io.list_folder import list_tool
    from handrail.library.io.read_file import read_tool

    confined, limits = ConfinedFiles(settings), settings.limits
    tools = [read_tool(confined, limits), list_tool(confined, limits), find_tool(confined, limits)]
    return [*tools, *write_tools(confined, limits), edit_tool(confined, limits)] if settings.write else tools


def _fetch(settings: IoSettings) -> list[Tool]:
    if not settings.hosts:
        return []
    from handrail.library.io.http_fetch import fetch_tool  # it loads an HTTP client

    return [fetch_tool(settings)]


def _databases(settings: IoSettings) -> list[Tool]:
    if not settings.databases:
        return []
    from handrail.library.io.sqlite import sqlite_tools  # it loads SQLite

    return sqlite_tools(settings)
