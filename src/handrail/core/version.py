"""What this program says about itself, to services and to people."""

from __future__ import annotations

VERSION = "0.1.0"
