"""`python -m handrail`: the same as the command `handrail`."""

from __future__ import annotations

import os
import sys

if not sys.flags.safe_path and sys.path and sys.path[0] in ("", os.getcwd()):
    del sys.path[0]  # the current folder, where a `click.py` would be imported in the place of the real one

from handrail.cli import main

sys.exit(main())
