"""The wordllama model, as it comes with its package."""

from __future__ import annotations

import logging
import subprocess
import sys

import pytest

from handrail.core.errors import MissingExtra
from handrail.sessions.store.embedding import WordLlamaEmbedder


def run(program: str) -> str:
    """Run a program in a Python of its own, so that nothing is imported yet."""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True)
    return done.stdout.strip()


def test_importing_the_module_does_not_import_the_model() -> None:
    program = "import sys, handrail.sessions.store.embedding; print('wordllama' in sys.modules, 'numpy' in sys.modules)"
    assert run(program) == "False False"


def test_without_the_package_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "wordllama", None)
    with pytest.raises(MissingExtra) as caught:
        WordLlamaEmbedder()
    assert caught.value.extra == "semantic"


def test_it_loads_without_a_network() -> None:
    pytest.importorskip("wordllama")
    program = """
import socket
def refuse(*args, **kwargs):
    raise AssertionError("no network")
socket.socket.connect = socket.getaddrinfo = refuse
from handrail.sessions.store.embedding import WordLlamaEmbedder
print(len(WordLlamaEmbedder().embed(["a text"])[0]))
"""
    assert run(program) == "257"


def test_the_logging_of_the_program_is_left_as_it_was() -> None:
    pytest.importorskip("wordllama")
    program = """
import logging
from handrail.sessions.store.embedding import WordLlamaEmbedder
WordLlamaEmbedder()
print(logging.getLogger().handlers, logging.getLogger().level)
"""
    assert run(program) == f"[] {logging.WARNING}"
