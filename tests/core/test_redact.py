"""Secrets do not reach records: by their type, by their field, by how they look."""

from __future__ import annotations

import copy
import json
import pickle
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from handrail.core.redact import (
    MASK,
    Secret,
    mask_fields,
    may_hold_secret,
    redact,
    redact_text,
    remember_secret,
    secret_fields,
)
from tests.core.secret_samples import BESIDE, ORDINARY, SHAPES
from tests.examples import examples

PEM = "-----BEGIN {0}PRIVATE KEY-----\nMIIEvQIBADANBgkqhkiG9w0BAQ\nEFAASC-BKcw+/=\n-----END {0}PRIVATE KEY-----"
SECRETS = SHAPES | {"key": PEM.format(""), "RSA key": PEM.format("RSA "), "OpenSSH key": PEM.format("OPENSSH ")}


@pytest.mark.parametrize("kind", SECRETS)
def test_a_secret_of_a_known_form_is_masked_whole(kind: str) -> None:
    secret = SECRETS[kind]

    assert redact_text(secret) == MASK
    assert redact_text(f"before {secret} after") == f"before {MASK} after"
    assert redact_text(f'{{"key": "{secret}"}}') == f'{{"key": "{MASK}"}}'
    assert secret not in redact_text(f"line\\n{secret}")
    assert secret not in redact_text(f"?key%3D{secret}")
    assert secret not in redact_text(f"?a%20{secret}")


@pytest.mark.parametrize("text", ORDINARY)
def test_what_only_looks_a_little_like_one_is_left_alone(text: str) -> None:
    assert redact_text(text) == text


@pytest.mark.parametrize("kind", BESIDE)
def test_a_secret_beside_its_name_is_masked_and_the_name_stays(kind: str) -> None:
    text, secret = BESIDE[kind]

    masked = redact_text(text)

    assert secret not in masked
    assert MASK in masked
    assert text.startswith(masked.partition(MASK)[0])
    assert secret not in redact_text(json.dumps({"log": f"first line\n{text}"}))


@pytest.mark.parametrize("name", ["password", "DB_PASSWORD", "client_secret", "apiKey", "x-api-key", "accessToken"])
def test_a_field_that_goes_by_the_name_of_a_secret_is_masked(name: str) -> None:
    assert redact({name: "7f3a9c1e5b", "user": "ada"}) == {name: MASK, "user": "ada"}


@pytest.mark.parametrize(
    "value",
    [{"password": "string"}, {"token": ""}, {"secret": True}, {"api_key": None}, {"page_token": "CAUQAA0123"}],
)
def test_a_field_with_such_a_name_and_an_ordinary_value_is_left_alone(value: dict[str, Any]) -> None:
    assert redact(value) == value


def test_the_option_of_a_command_that_takes_a_secret_hides_what_follows_it() -> None:
    assert redact(["deploy", "--api-key", "opensesame", "--force"]) == ["deploy", "--api-key", MASK, "--force"]


def test_our_own_documents_and_programs_hold_nothing_that_is_taken_for_a_secret() -> None:
    root = Path(__file__).parents[2]
    pages = [*(root / "src").rglob("*.py"), *(root / "docs").rglob("*.md")]
    masked = [
        line
        for page in pages
        for line in page.read_text(encoding="utf-8").splitlines()
        if redact_text(line) != line and "hntoken://v1/" not in line
    ]

    assert len(pages) > 500
    assert masked == []


@given(st.sampled_from([*SECRETS.values(), *(text for text, _ in BESIDE.values()), *ORDINARY]), st.text(max_size=20))
def test_what_the_quick_check_lets_through_is_never_masked(secret: str, around: str) -> None:
    for text in (secret, f"{around} {secret}", f"{secret} {around}", around):
        if not may_hold_secret(text) or not may_hold_secret(json.dumps({"text": text}, ensure_ascii=False)):
            assert redact({"text": text}) == {"text": text}


@given(st.lists(st.sampled_from([*SECRETS.values(), *(text for text, _ in BESIDE.values())]), max_size=3), st.text())
def test_redacting_twice_changes_nothing_more(secrets: list[str], around: str) -> None:
    once = redact_text(f"{around} {' '.join(secrets)}")

    assert redact_text(once) == once


def test_a_configured_key_is_masked_by_its_value_whatever_it_looks_like() -> None:
    remember_secret('correct horse "battery" staple')

    assert redact_text('it said: correct horse "battery" staple!') == f"it said: {MASK}!"
    assert redact({"a": ['correct horse "battery" staple']}) == {"a": [MASK]}
    assert may_hold_secret('{"a": "correct horse \\"battery\\" staple"}')


def test_a_configured_key_of_a_few_characters_does_not_mask_ordinary_words() -> None:
    remember_secret("local")

    assert redact_text("a local model") == "a local model"


@pytest.mark.parametrize("scheme", ["Bearer", "bearer", "BEARER"])
def test_a_bearer_token_is_masked_and_the_scheme_is_not(scheme: str) -> None:
    assert redact_text(f"Authorization: {scheme} abcDEF123-_.~+/xyz==") == f"Authorization: {scheme} {MASK}"


@pytest.mark.parametrize(
    ("url", "safe"),
    [
        ("https://ada:hunter2@example.org/x", f"https://{MASK}@example.org/x"),
        ("redis://:hunter2@cache:6379/0", f"redis://{MASK}@cache:6379/0"),
        ("postgres://ada:p@ss:w@db/x", f"postgres://{MASK}@db/x"),
        ("amqp://ada:hunter2@", f"amqp://{MASK}@"),
    ],
)
def test_a_password_in_a_url_is_masked(url: str, safe: str) -> None:
    assert redact_text(url) == safe


def test_a_private_key_that_was_cut_is_masked_as_far_as_it_goes() -> None:
    cut = PEM.format("")[:60]

    assert redact_text(f"key: {cut}") == f"key: {MASK}"
    assert redact_text(cut + PEM.format("RSA ")) == MASK * 2


@given(st.sampled_from([*SECRETS.values()]), st.data())
@settings(max_examples=examples(300))
def test_a_secret_is_found_wherever_it_stands_in_a_value(secret: str, data: st.DataObject) -> None:
    canaries = st.sampled_from([secret, f"x {secret}", {secret: 1}, {"a": [secret, {"b": secret}]}, [(secret,)]])
    shapes = st.recursive(canaries | st.integers() | st.none() | st.text(max_size=5), lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3)
    ), max_leaves=6)  # fmt: skip

    assert secret not in str(redact(data.draw(shapes)))


def test_what_holds_no_secret_comes_back_equal() -> None:
    value = {"a": [1, 2.5, True, None, "text"], "b": {"c": {}}}

    assert redact(value) == value


def test_two_secret_keys_are_still_two_fields() -> None:
    value = {"ghp_" + "a" * 36: 1, "ghp_" + "b" * 36: 2, "ghp_" + "c" * 36: 3}

    assert list(redact(value).values()) == [1, 2, 3]


def test_redacting_makes_a_new_value() -> None:
    value = {"a": [SECRETS["AWS"]]}
    before = copy.deepcopy(value)

    redact(value)

    assert value == before


def test_a_secret_by_type_is_masked_whatever_it_looks_like() -> None:
    assert redact({"a": [Secret("plain words")]}) == {"a": [MASK]}


@pytest.mark.parametrize("text", ["", "x", "12345678", "123456789", "a long secret that nobody may read"])
def test_the_repr_of_a_secret_shows_at_most_its_end(text: str) -> None:
    shown = repr(Secret(text))

    assert len(shown) <= len("Secret('…1234')")
    assert not text or text not in shown


def test_a_secret_is_the_text_that_it_is() -> None:
    secret = Secret("hunter2")

    assert secret == "hunter2"
    assert f"{secret}" == "hunter2"
    assert type(pickle.loads(pickle.dumps(secret))) is Secret


ALMOST = (
    *("a", "sk-", "-sk-", "http://a:", "://a:b", "://", "@", "Bearer ", "AKIA", "ghp_", "github_pat_", "xoxb-"),
    *("eyJ", "eyJaaaaaaaaaa.", ".eyJaaaaaaaaaa", "eyJaaaaaaaaaa.eyJ"),
    *("password=", "token='", 'secret=\\"', "api_key: ", "--token ", "cookie: a=", "basic ", "SG.", "AIza", "S.", "_"),
    *("glpat-", "sk_live_", "aQ~", "JQQJ9", "M" * 24 + ".", "password", "-----", "=", ":", "x.", "/webhooks/"),
    *("-", "-----BEGIN ", "-----BEGIN A ", "-----BEGIN PRIVATE KEY-----"),
)


@pytest.mark.parametrize("unit", ALMOST)
def test_a_megabyte_of_almost_secrets_is_gone_through_in_one_pass(unit: str) -> None:
    # What would be quadratic takes minutes here and stops the suite; nothing is measured.
    text = (unit * (1_000_000 // len(unit) + 1))[:1_000_000]

    assert len(redact_text(text)) >= len(MASK)


FIELDS: dict[str, tuple[dict[str, Any], set[str]]] = {
    "writeOnly": ({"key": {"type": "string", "writeOnly": True}, "n": {"type": "integer"}}, {"key"}),
    "password": ({"key": {"type": "string", "format": "password"}}, {"key"}),
    "optional": ({"key": {"anyOf": [{"type": "string", "writeOnly": True}, {"type": "null"}]}}, {"key"}),
    "list": ({"keys": {"type": "array", "items": {"writeOnly": True}}}, {"keys"}),
    "tuple": ({"keys": {"prefixItems": [{"type": "string"}, {"writeOnly": True}]}}, {"keys"}),
    "map": ({"keys": {"additionalProperties": {"writeOnly": True}}}, {"keys"}),
    "map by pattern": ({"keys": {"patternProperties": {"^k": {"writeOnly": True}}}}, {"keys"}),
    "reference": ({"key": {"$ref": "#/$defs/Key"}}, {"key"}),
    "reference to a list": ({"keys": {"$ref": "#/$defs/Keys"}}, {"keys"}),
    "nested": ({"login": {"properties": {"user": {}, "key": {"writeOnly": True}}}}, {"key"}),
    "in a list": ({"logins": {"items": {"properties": {"key": {"writeOnly": True}}}}}, {"key"}),
    "circle": ({"node": {"$ref": "#/$defs/Node"}}, {"secret"}),
    "nowhere": ({"key": {"$ref": "#/$defs/Absent"}, "other": {"$ref": "http://x"}, "writeOnly": {}}, set()),
    "writeOnly is not true": ({"key": {"writeOnly": "yes"}, "other": True}, set()),
}
DEFS: dict[str, Any] = {
    "Key": {"allOf": [{"type": "string", "writeOnly": True}]},
    "Keys": {"items": {"$ref": "#/$defs/Key"}},
}
NODE: dict[str, Any] = {
    "Node": {
        "properties": {"next": {"$ref": "#/$defs/Node"}, "secret": {"writeOnly": True}},
        "anyOf": [{"$ref": "#/$defs/Node"}],
    }
}


@pytest.mark.parametrize("case", FIELDS)
def test_fields_that_a_schema_marks_as_secret_are_found(case: str) -> None:
    properties, secret = FIELDS[case]
    defs = DEFS | (NODE if case == "circle" else {})

    assert secret_fields({"type": "object", "properties": properties, "$defs": defs}) == secret


def test_secret_fields_are_masked_at_any_depth() -> None:
    value = {"key": "a", "n": 1, "list": [{"key": ["b"]}, ({"key": "c"},)], "deep": {"x": {"key": None}}}

    assert mask_fields(value, frozenset({"key"})) == {
        "key": MASK,
        "n": 1,
        "list": [{"key": MASK}, [{"key": MASK}]],
        "deep": {"x": {"key": MASK}},
    }
    assert value["key"] == "a"


def test_without_secret_fields_nothing_is_masked() -> None:
    value = {"key": "a"}

    assert mask_fields(value, frozenset()) is value
