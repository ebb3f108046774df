"""The files of the page as text, and what of them runs in node."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import handrail.desk
from tests.npm_packages import node

WEB = Path(handrail.desk.__file__).parent / "page"


def sources(*kinds: str) -> Mapping[str, str]:
    """The text of every file of these kinds, by its name in the page."""
    found = {path.relative_to(WEB).as_posix(): path for kind in kinds for path in sorted(WEB.rglob(f"*{kind}"))}
    return {name: path.read_text(encoding="utf-8") for name, path in found.items()}


def run_in_node(module: str, expression: str, given: Any = None) -> Any:
    """The value of an expression over `module` (its exports) and `given`, in node."""
    program = f"""
      import {{ readFileSync }} from "node:fs";
      import * as module from {json.dumps((WEB / module).as_uri())};
      const given = JSON.parse(readFileSync(0, "utf8"));
      console.log(JSON.stringify({expression}));
    """
    done = subprocess.run(
        [node(), "--input-type=module", "-e", program],
        input=json.dumps(given),
        capture_output=True,
        check=True,
        encoding="utf-8",
        timeout=60,
    )
    return json.loads(done.stdout)
