"""The Chromium that opens the pages of tests.

Chromium without the parts that show it to a person (Debian's chromium-headless-shell, and what Playwright itself takes
where nobody looks on) needs a third of the processor's time that the whole one does.
"""

from __future__ import annotations

import os
import shutil

_NAMES = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome")
CHROMIUM = next((path for path in map(shutil.which, _NAMES) if path), None)
WITHOUT_SANDBOX = ["--no-sandbox"] if os.geteuid() == 0 else []
"""Chromium's own sandbox refuses to run as root."""
