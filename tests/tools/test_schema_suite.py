"""The validator against the public JSON Schema test suite: every required case is right, or listed with why not."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from handrail.core.errors import InvalidSchema
from handrail.tools.schema.validator import Validator

SUITE = Path(__file__).resolve().parents[2] / ".cache" / "json-schema-test-suite" / "tests"
FETCH = "the JSON Schema test suite is missing; run: python scripts/fetch_schema_suite.py"

DIALECTS = {
    "draft4": "http://json-schema.org/draft-04/schema#",
    "draft6": "http://json-schema.org/draft-06/schema#",
    "draft7": "http://json-schema.org/draft-07/schema#",
    "draft2019-09": "https://json-schema.org/draft/2019-09/schema",
    "draft2020-12": "https://json-schema.org/draft/2020-12/schema",
}

REMOTE = "it refers to another document, and nothing outside a schema is read"
CUSTOM = "its meta-schema is another document, and nothing outside a schema is read"

REFUSED = {
    ("refRemote.json", "remote ref"): REMOTE,
    ("refRemote.json", "fragment within remote ref"): REMOTE,
    ("refRemote.json", "anchor within remote ref"): REMOTE,
    ("refRemote.json", "ref within remote ref"): REMOTE,
    ("refRemote.json", "base URI change"): REMOTE,
    ("refRemote.json", "base URI change - change folder"): REMOTE,
    ("refRemote.json", "base URI change - change folder in subschema"): REMOTE,
    ("refRemote.json", "root ref in remote ref"): REMOTE,
    ("refRemote.json", "remote ref with ref to definitions"): REMOTE,
    ("refRemote.json", "remote ref with ref to defs"): REMOTE,
    ("refRemote.json", "Location-independent identifier in remote ref"): REMOTE,
    ("refRemote.json", "retrieved nested refs resolve relative to their URI not $id"): REMOTE,
    ("refRemote.json", "remote HTTP ref with different $id"): REMOTE,
    ("refRemote.json", "remote HTTP ref with different URN $id"): REMOTE,
    ("refRemote.json", "remote HTTP ref with nested absolute ref"): REMOTE,
    ("refRemote.json", "$ref to $ref finds location-independent $id"): REMOTE,
    ("refRemote.json", "$ref to $ref finds detached $anchor"): REMOTE,
    ("dynamicRef.json", "strict-tree schema, guards against misspelled properties"): REMOTE,
    ("dynamicRef.json", "tests for implementation dynamic anchor and reference link"): REMOTE,
    ("dynamicRef.json", "$ref and $dynamicAnchor are independent of order - $defs first"): REMOTE,
    ("dynamicRef.json", "$ref and $dynamicAnchor are independent of order - $ref first"): REMOTE,
    ("dynamicRef.json", "$ref to $dynamicRef finds detached $dynamicAnchor"): REMOTE,
    ("vocabulary.json", "schema that uses custom metaschema with with no validation vocabulary"): CUSTOM,
    ("vocabulary.json", "ignore unrecognized optional vocabulary"): CUSTOM,
}


def _files() -> list[Any]:
    found = [path for dialect in DIALECTS for path in sorted((SUITE / dialect).glob("*.json"))]
    return [pytest.param(path, id=f"{path.parent.name}/{path.stem}") for path in found]


def _cases(path: Path) -> Iterator[tuple[str, dict[str, Any] | bool, list[dict[str, Any]]]]:
    for case in json.loads(path.read_text("utf-8")):
        schema = case["schema"]
        # The folder says which dialect a case is in; a schema says it by `$schema`.
        named = {"$schema": DIALECTS[path.parent.name], **schema} if isinstance(schema, dict) else schema
        yield case["description"], named, case["tests"]


def _wrong(schema: dict[str, Any] | bool, tests: list[dict[str, Any]]) -> list[str]:
    validator = Validator(schema, "a suite case")
    return [test["description"] for test in tests if (validator.problems(test["data"]) == []) is not test["valid"]]


@pytest.mark.requirement("nrv.schema-dialects")
def test_the_suite_is_here_with_every_dialect() -> None:
    for dialect in DIALECTS:
        assert len(list((SUITE / dialect).glob("*.json"))) > 25, FETCH


@pytest.mark.requirement("nrv.schema-dialects")
@pytest.mark.parametrize("path", _files())
def test_every_required_case_is_decided_as_the_suite_says(path: Path) -> None:
    wrong: dict[str, Any] = {}
    for description, schema, tests in _cases(path):
        if (path.name, description) in REFUSED:
            with pytest.raises(InvalidSchema):
                Validator(schema, "a suite case")
        elif failures := _wrong(schema, tests):
            wrong[description] = failures
    assert wrong == {}


def test_every_listed_case_is_in_the_suite() -> None:
    assert SUITE.is_dir(), FETCH
    paths = [path for dialect in DIALECTS for path in (SUITE / dialect).glob("*.json")]
    present = {(path.name, description) for path in paths for description, _, _ in _cases(path)}
    assert set(REFUSED) <= present
