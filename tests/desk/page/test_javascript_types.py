"""The page is checked by a compiler although nothing compiles it, and its types are those of the node."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path

from msgspec import Struct
from msgspec.structs import fields

from handrail.desk import values
from handrail.desk.views import values as viewed
from tests.desk.page.page_sources import WEB, sources
from tests.npm_packages import node, tsc

_TYPEDEF = re.compile(r"@typedef \{object\} (\w+)\n((?: \* .*\n)*)")
_PROPERTY = re.compile(r" \* @property \{.*?\} (\[?)(\w+)(?=[\] \n])")


def test_the_types_of_the_page_hold(tmp_path: Path) -> None:
    options = {
        "allowJs": True,
        "checkJs": True,
        "strict": True,
        "noEmit": True,
        "target": "es2024",
        "module": "esnext",
        "moduleResolution": "bundler",
        "lib": ["es2024", "dom", "dom.iterable"],
        "types": [],
    }
    config = tmp_path / "tsconfig.json"
    config.write_text(json.dumps({"compilerOptions": options, "include": [f"{WEB}/**/*.js"]}), encoding="utf-8")
    done = subprocess.run([node(), tsc(), "-p", config], capture_output=True, encoding="utf-8", timeout=120)
    assert (done.returncode, done.stdout) == (0, "")


def test_the_page_knows_every_value_of_the_desk_field_by_field() -> None:
    written = {
        name: [(field, optional == "[") for optional, field in _PROPERTY.findall(body)]
        for name, body in _TYPEDEF.findall(sources(".js")["values.js"])
    }
    known = [*vars(values).values(), *vars(viewed).values()]
    kinds = [kind for kind in known if isinstance(kind, type) and issubclass(kind, Struct)]
    told = {
        kind.__name__: [(field.encode_name, not field.required) for field in fields(kind)]
        for kind in kinds
        if kind is not Struct
    }
    assert written == told
