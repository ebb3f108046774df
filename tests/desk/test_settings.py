"""The configuration at the page: what holds is shown without secrets, and a change is made whole or not at all."""

from __future__ import annotations

import asyncio
import os
import stat
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings, strategies as st

from handrail.config.values import Config, ModelSettings
from handrail.core.errors import UsageError
from handrail.desk.views.settings_sections import config_sections
from handrail.desk.views.values import SettingField, SettingsForm, SettingsPage
from tests.desk.views_folder import CONFIG, ViewsFolder, call
from tests.examples import examples

KEY = "sk-" + "a1b2c3d4" * 4


@pytest.fixture
def house(tmp_path: Path) -> Iterator[ViewsFolder]:
    yield ViewsFolder(tmp_path)
    sys.modules.pop("looked_at", None)  # another test has its own


def value(settings: SettingsPage, section: str, name: str) -> str:
    (found,) = (each for each in settings.sections if each.name == section)
    return dict(found.values)[name]


async def test_what_holds_is_shown_by_sections(house: ViewsFolder) -> None:
    house.file.write_text(
        CONFIG + '[limits]\nseconds = 9.5\n[models.small]\nprovider = "local"\nkey = "env:SMALL_KEY"\n'
    )
    async with house.open() as (_, views):
        shown = await views.settings.now()

    assert shown.file == str(house.file) and shown.text == house.file.read_text() and shown.writable
    assert value(shown, "limits", "seconds") == "9.5"
    assert value(shown, "limits", "iterations") == "6"
    assert value(shown, "models", "small.key") == "env:SMALL_KEY"
    assert value(shown, "rules", "2") == "allow desk:note text=tea"
    assert shown.problem == ""


async def test_a_change_is_kept_and_taken_up_at_once(house: ViewsFolder) -> None:
    os.chmod(house.file, 0o640)
    async with house.open() as (app, views):
        before = await views.settings.now()
        after = await views.settings.save(before.text.replace("text=tea", "text=milk"), before.revision)
        await call(app, "run_1", "note", text="milk")

        assert house.code.notes == ["milk"]
        assert value(after, "rules", "2") == "allow desk:note text=milk"
    assert after.revision != before.revision
    assert "text=milk" in house.file.read_text()
    assert stat.S_IMODE(house.file.stat().st_mode) == 0o640
    assert [path.name for path in house.folder.iterdir() if ".part" in path.name] == []


async def test_line_ends_and_the_mark_of_a_file_stay_though_nobody_sees_them(house: ViewsFolder) -> None:
    house.file.write_bytes(b"\xef\xbb\xbf" + CONFIG.replace("\n", "\r\n").encode())
    async with house.open() as (_, views):
        shown = await views.settings.now()
        assert (shown.text, shown.writable, shown.problem) == (CONFIG, True, "")
        after = await views.settings.save("\ufeff" + shown.text + "# more\n", shown.revision)

    assert after.text == CONFIG + "# more\n"
    assert house.file.read_bytes() == b"\xef\xbb\xbf" + after.text.replace("\n", "\r\n").encode()


async def test_whoever_leaves_while_a_change_is_taken_up_leaves_the_old_file(
    house: ViewsFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with house.open() as (app, views):
        begun = asyncio.Event()

        async def reload(file: Path | None = None) -> None:
            begun.set()
            await asyncio.Event().wait()

        monkeypatch.setattr(app, "reload", reload)
        shown = await views.settings.now()
        saving = asyncio.create_task(views.settings.save(CONFIG + "# more\n", shown.revision))
        await begun.wait()
        assert house.file.read_text() == CONFIG + "# more\n"
        saving.cancel()
        with pytest.raises(asyncio.CancelledError):
            await saving

    assert house.file.read_text() == CONFIG


async def test_a_change_of_what_somebody_else_changed_meanwhile_is_refused(house: ViewsFolder) -> None:
    async with house.open() as (_, views):
        before = await views.settings.now()
        house.file.write_text(CONFIG + "# mine\n")
        with pytest.raises(UsageError, match="meanwhile"):
            await views.settings.save(before.text + "# yours\n", before.revision)
        again = await views.settings.now()
        await views.settings.save(again.text + "# yours\n", again.revision)

    assert house.file.read_text() == CONFIG + "# mine\n# yours\n"


async def test_where_settings_are_not_writable_nothing_is_written(house: ViewsFolder) -> None:
    async with house.open(writable=False) as (_, views):
        shown = await views.settings.now()
        with pytest.raises(UsageError, match="cannot be changed"):
            await views.settings.save(shown.text + "# more\n", shown.revision)

    assert not shown.writable
    assert house.file.read_text() == CONFIG


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("rules = [", "is not TOML"),
        ("ruels = []", "did you mean 'rules'"),
        ('rules = ["perhaps x"]', "allow|deny"),
        (f'[models.x]\nprovider = "openai"\nkey = "{KEY}"', "not written into a file"),
        ('ensembles = ["gone.toml"]', "there is no file"),
        ("a = 1\n" * 200_000, "larger than"),
        ("a." * 1_000 + "b = 1", ""),
        ("x = " + "[" * 5_000, ""),
        ("x = '\ud800'", "characters"),
        ("x = '\0'", ""),
        ("default_model = '\u202e'\n[limits]\niterations = -1", "iterations"),
    ],
)
async def test_mistakes_are_told_and_never_written(house: ViewsFolder, text: str, told: str) -> None:
    async with house.open() as (_, views):
        shown = await views.settings.now()
        problems = await views.settings.check(text)
        with pytest.raises(UsageError, match=r".*"):
            await views.settings.save(text, shown.revision)

        assert len(problems) == 1 and told in problems[0] and KEY not in problems[0]
        assert house.file.read_text() == CONFIG
        assert len(await views.tools.rows()) > 5


async def test_a_mistake_in_a_file_that_it_names_puts_the_old_one_back(house: ViewsFolder) -> None:
    (house.folder / "wrong.toml").write_text('[[invokers]]\nname = "x"\n')
    async with house.open() as (app, views):
        shown, tools = await views.settings.now(), app.tools
        with pytest.raises(UsageError):
            await views.settings.save('ensembles = ["desk.toml", "wrong.toml"]\n', shown.revision)

        assert app.tools is tools
    assert house.file.read_text() == CONFIG


async def test_without_a_file_saving_makes_one_and_takes_it_up(house: ViewsFolder) -> None:
    house.file.unlink()
    async with house.open() as (app, views):
        shown = await views.settings.now()
        assert (shown.file, shown.text, len(app.tools)) == (None, "", 0)
        after = await views.settings.save(CONFIG, shown.revision)
        with pytest.raises(UsageError, match="meanwhile"):
            await views.settings.save(CONFIG, shown.revision)

        assert after.file == str(house.file)
        assert "desk:add" in app.tools


async def test_a_link_stays_a_link(house: ViewsFolder, tmp_path: Path) -> None:
    real = tmp_path / "real.toml"
    house.file.rename(real)
    house.file.symlink_to(real)
    async with house.open() as (_, views):
        shown = await views.settings.now()
        await views.settings.save(shown.text + "# more\n", shown.revision)

    assert house.file.is_symlink()
    assert real.read_text() == CONFIG + "# more\n"


async def test_what_is_wrong_with_the_file_now_is_told_while_an_older_reading_holds(house: ViewsFolder) -> None:
    async with house.open() as (_, views):
        house.file.write_text("rules = 7\n")
        shown = await views.settings.now()

    assert "rules" in shown.problem
    assert value(shown, "rules", "2") == "allow desk:note text=tea"
    assert shown.writable


async def test_a_secret_in_a_file_is_neither_shown_nor_lost(house: ViewsFolder) -> None:
    async with house.open() as (_, views):
        house.file.write_text(f'x = "{KEY}"\n')
        shown = await views.settings.now()

    assert KEY not in shown.text and "secret" in shown.problem
    assert not shown.writable


async def test_values_that_come_from_variables_are_not_shown(
    house: ViewsFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("H3_TOKEN", "correct horse battery")
    monkeypatch.setenv("H3_OTHER", "correct\\horse")
    text = (
        '[models.far]\nprovider = "openai"\nmodel = "gpt"\nkey = "env:H3_TOKEN"\nbase_url = "http://x/${H3_TOKEN}/"\n'
    )
    house.file.write_text(CONFIG + text + '[models.far.options]\nx = ["${H3_TOKEN}"]\napi_key = "plain words"\n')
    async with house.open() as (_, views):
        shown = await views.settings.now()

        secret = await views.settings.check('rules = ["${H3_TOKEN}"]')
        quoted = await views.settings.check('rules = ["${H3_OTHER}"]')

    assert "correct horse" not in repr(shown)
    assert "'${H3_TOKEN}' is not of the form" in secret[0]
    assert "'${H3_OTHER}' is not of the form" in quoted[0]
    assert value(shown, "models", "far.base_url") == "http://x/${H3_TOKEN}/"
    assert value(shown, "models", "far.options.api_key") == "[redacted]"
    assert value(shown, "models", "far.key") == "env:H3_TOKEN"


async def test_a_standing_rule_is_shown_and_can_be_taken_back(house: ViewsFolder) -> None:
    async with house.open() as (app, views):
        rule = f"allow desk:note@{app.tools.find('note').digest} text=beer"
        house.approvals.add_rule(house.file, rule)
        shown = await views.settings.now()
        allowed = await call(app, "run_1", "note", text="beer")
        after = await views.settings.forget(rule)
        asked = await call(app, "run_2", "note", text="beer")
        with pytest.raises(UsageError, match="no standing rule"):
            await views.settings.forget(rule)

    assert (shown.rules, after.rules) == ((rule,), ())
    assert (allowed.outcome, asked.outcome) == ("ok", "needs_confirmation")


def field(form: SettingsForm, path: str) -> SettingField | None:
    found = (each for group in form.groups for each in group.fields if ".".join(each.path) == path)
    return next(found, None)


async def test_a_text_is_told_field_by_field_with_what_holds_otherwise_and_where_it_stands(
    house: ViewsFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("H3_TOKEN", "correct horse battery")
    text = (
        '[policy]\ntimeout = 3\n[models.far]\nprovider = "openai"\nkey = "env:H3_TOKEN"\n'
        'base_url = "http://${H3_TOKEN}/${H3_NONE}"\noptions = {}\n[standard]\nio = true\n[node.peers.a]\nurl = "http://a"\n'
    )
    async with house.open() as (_, views):
        form = await views.settings.form(text)

    assert "correct horse" not in repr(form)
    assert field(form, "models.far.key") == SettingField(
        path=("models", "far", "key"),
        help="models.*.key",
        form="variable",
        value="env:H3_TOKEN",
        line=5,
        variables=(("H3_TOKEN", True),),
    )
    address = field(form, "models.far.base_url")
    assert address is not None and address.variables == (("H3_NONE", False), ("H3_TOKEN", True))
    timeout, same = field(form, "policy.timeout"), field(form, "llm.tools_per_tool_timeout_seconds")
    assert timeout is not None and (timeout.value, timeout.default, timeout.line) == (3, 30.0, 2)
    assert same is None  # two names for one setting
    iterations = field(form, "llm.tools_max_iterations")
    assert iterations is not None and (iterations.value, iterations.default, iterations.line) == (None, 6, 0)
    standard = field(form, "standard.io.enabled")
    assert standard is not None and (standard.stuck, standard.line) == (True, 9)
    inside = {name: line for group in form.groups for name, line in group.inside}
    assert inside == {"models.far.options": 7, "node.peers.a": 10}


async def test_a_change_of_a_field_is_checked_and_shown_against_the_file_which_stays_as_it_is(
    house: ViewsFolder,
) -> None:
    async with house.open() as (_, views):
        good = await views.settings.form(CONFIG, ("limits", "cost"), 2)
        bad = await views.settings.form(good.text, ("limits", "cost"), -1)
        listed = await views.settings.form(CONFIG, ("rules",), ["allow x", "perhaps"])
        secret = await views.settings.form(CONFIG + '[serve]\ntoken = "open sesame"\n')
        longer = await views.settings.form(CONFIG + "\n")
        back = await views.settings.form(bad.text, ("limits", "cost"), None)
        with pytest.raises(UsageError, match="not TOML"):
            await views.settings.form("x = ", ("limits", "cost"), 2)

    assert (good.text, good.problems) == (CONFIG.rstrip() + "\n\n[limits]\ncost = 2\n", ())
    assert [line for line in good.changes if line[0] in "+-" and line[1:]] == ["+[limits]", "+cost = 2"]
    assert longer.changes[-1] == "+"
    (wrong,) = bad.problems
    assert (wrong.path, wrong.line) == (("limits", "cost"), bad.text.count("\n"))
    assert "above 0" in wrong.words and str(house.file) not in wrong.words
    assert listed.problems[0].path == ("rules",)
    assert secret.problems[0].path == ("serve", "token") and "open sesame" not in repr(secret.groups)
    token = field(secret, "serve.token")
    assert token is not None and (token.value, token.stuck) == (None, False)  # it can be replaced where it stands
    assert back.text == CONFIG.rstrip() + "\n\n[limits]\n"
    assert house.file.read_text() == CONFIG


@pytest.mark.parametrize(
    "text",
    [
        *("rules = [", "a." * 1_000 + "b = 1", "x = " + "[" * 5_000, "x = '\0'", "[[llm]]", "llm = 3"),
        *("x = " + "9" * 5_000, f"ensembles = ['{'x' * 300}']", "standard.io.roots.a = '~nobody-of-that-name/x'"),
        "serve.corpora.a = '~nobody-of-that-name/x'",
    ],
)
async def test_any_text_can_be_looked_at_as_a_form(house: ViewsFolder, text: str) -> None:
    async with house.open() as (_, views):
        form = await views.settings.form(text)

    assert form.text == text and form.problems


async def test_a_hidden_value_that_became_a_path_is_not_shown(
    house: ViewsFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HIDDEN", "amqp://me:swordfish@there//queue/")
    async with house.open() as (_, views):
        form = await views.settings.form("ensembles = ['${HIDDEN}']")
        told = await views.settings.check("standard.io.roots.a = '${HIDDEN}'")

    assert "${HIDDEN}" in form.problems[0].words and "${HIDDEN}" in told[0]
    assert "swordfish" not in f"{form} {told}"


@settings(max_examples=examples(30))
@given(st.text(max_size=20), st.text(max_size=50), st.text("abcdef", min_size=12, max_size=20))
def test_a_hidden_value_is_not_shown_whatever_stands_around_it(name: str, around: str, secret: str) -> None:
    options = {name: [f"{around}{secret}{around}"], "deep": {"er": secret}}
    config = Config(models={"m": ModelSettings(provider="p", options=options)})

    assert secret not in repr(config_sections(config, {"V": secret}))
