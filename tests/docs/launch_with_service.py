"""Runs a program that names OpenAI, with a service on this machine in its place: `ADDRESS PROGRAM ARGUMENT…`."""

from __future__ import annotations

import runpy
import sys
from unittest.mock import patch

from msgspec.structs import replace

from handrail.models.services import SERVICES

if __name__ == "__main__":
    _, address, *sys.argv = sys.argv
    with patch.dict(SERVICES, openai=replace(SERVICES["openai"], base_url=address)):
        runpy.run_path(sys.argv[0], run_name="__main__")
