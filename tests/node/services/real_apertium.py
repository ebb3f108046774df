"""The translator that `make suite` installs."""

from __future__ import annotations

import functools
import shutil
import subprocess

import pytest

from handrail.node.services.apertium import ApertiumBackend


def real_apertium() -> ApertiumBackend:
    """Apertium with English and Spanish; where it is not installed, the test is skipped."""
    backend = ApertiumBackend.installed()
    if backend is None or not {"eng-spa", "spa-eng"} <= _pairs():
        pytest.skip("Apertium with the pair eng-spa is not installed; on Debian: apt-get install apertium-eng-spa")
    return backend


@functools.cache
def _pairs() -> frozenset[str]:
    program = shutil.which("apertium") or "apertium"
    listed = subprocess.run([program, "-l"], capture_output=True, text=True, timeout=60, check=True)
    return frozenset(listed.stdout.split())
