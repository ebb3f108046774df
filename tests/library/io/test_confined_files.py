"""Opening beneath a root: one contract, kept by the kernel's way and by ours."""

from __future__ import annotations

import errno
import os
import string
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import example, given, strategies as st

from handrail.core.errors import ToolError, UsageError
from handrail.library.io import IoSettings, openat2 as kernel
from handrail.library.io.confined_files import LISTED, READ, Beneath, ConfinedFiles
from handrail.library.io.stepwise_open import FOLDER, open_root
from tests.library.io.io_calls import WAYS, tree

SECRET = "the secret outside"


@pytest.fixture(params=WAYS)
def beneath(request: pytest.FixtureRequest) -> Beneath:
    if request.param == "openat2" and not kernel.available():
        pytest.skip("this kernel has no openat2, or something refuses it")
    return WAYS[request.param]


@pytest.fixture
def root(tmp_path: Path) -> Iterator[int]:
    """A folder with files and links of all kinds, and secrets around it."""
    inside = tmp_path / "data"
    tree(inside, **{"a.txt": "a", "deep__er__b.txt": "b"})
    tree(tmp_path, **{"secret.txt": SECRET, "data-evil__c.txt": SECRET, "DATA__a.txt": SECRET})
    links = {
        "in": "a.txt",
        "in-deep": "deep/er",
        "deep/up": "../a.txt",
        "deep/round": "../deep/er/../er/b.txt",
        "chain": "in",
        "out": "../secret.txt",
        "out-folder": "..",
        "deep/out": "../../secret.txt",
        "absolute-out": str(tmp_path / "secret.txt"),
        "absolute-in": str(inside / "a.txt"),
        "sneaky": "deep/../../data-evil/c.txt",
        "loop": "loop",
        "dangling": "nothing",
        "via-proc": "/proc/self/cwd",
    }
    for name, target in links.items():
        (inside / name).symlink_to(target)
    descriptor = os.open(inside, FOLDER)
    yield descriptor
    os.close(descriptor)


def content(beneath: Beneath, root: int, path: str, flags: int = READ) -> bytes:
    descriptor = beneath(root, path, flags, 0)
    try:
        return os.read(descriptor, 100)
    finally:
        os.close(descriptor)


@pytest.mark.parametrize(
    ("path", "holds"),
    [
        ("a.txt", b"a"),
        ("./a.txt", b"a"),
        (".//./a.txt", b"a"),
        ("deep/er/b.txt", b"b"),
        ("deep/../a.txt", b"a"),
        ("deep/er/../../a.txt", b"a"),
        ("in", b"a"),
        ("chain", b"a"),
        ("in-deep/b.txt", b"b"),
        ("in-deep/../er/b.txt", b"b"),
        ("deep/up", b"a"),
        ("deep/round", b"b"),
    ],
)
def test_what_is_inside_is_opened_however_it_is_written(beneath: Beneath, root: int, path: str, holds: bytes) -> None:
    assert content(beneath, root, path) == holds


@pytest.mark.parametrize(
    "path",
    [
        "..",
        "../secret.txt",
        "../data/a.txt",
        "deep/../../secret.txt",
        "../data-evil/c.txt",
        "../DATA/a.txt",
        "/etc/passwd",
        "//etc/passwd",
        "out",
        "out-folder",
        "out-folder/secret.txt",
        "out-folder/data/a.txt",
        "deep/out",
        "absolute-out",
        "absolute-in",
        "sneaky",
        "via-proc",
        "via-proc/a.txt",
    ],
)
def test_what_leads_out_is_refused_even_if_it_would_come_back(beneath: Beneath, root: int, path: str) -> None:
    with pytest.raises(OSError) as caught:
        content(beneath, root, path)

    assert caught.value.errno == errno.EXDEV


@pytest.mark.parametrize(
    ("path", "number"),
    [
        ("nothing", errno.ENOENT),
        ("", errno.ENOENT),
        ("nothing/../a.txt", errno.ENOENT),
        ("dangling", errno.ENOENT),
        ("..%2fsecret.txt", errno.ENOENT),
        ("..\\secret.txt", errno.ENOENT),
        ("%2e%2e/secret.txt", errno.ENOENT),
        ("A.TXT", errno.ENOENT),
        ("a.txt/", errno.ENOTDIR),
        ("a.txt/.", errno.ENOTDIR),
        ("a.txt/..", errno.ENOTDIR),
        ("a.txt/b", errno.ENOTDIR),
        ("in/", errno.ENOTDIR),
        ("loop", errno.ELOOP),
        ("loop/a", errno.ELOOP),
        ("x" * 300, errno.ENAMETOOLONG),
    ],
)
def test_the_two_ways_agree_on_what_is_wrong(beneath: Beneath, root: int, path: str, number: int) -> None:
    with pytest.raises(OSError) as caught:
        content(beneath, root, path)

    assert caught.value.errno == number


def test_a_name_does_not_end_at_a_nul(beneath: Beneath, root: int) -> None:
    with pytest.raises(ValueError):
        beneath(root, "a.txt\0.png", READ, 0)


def test_a_link_is_not_followed_when_it_is_not_to_be(beneath: Beneath, root: int) -> None:
    with pytest.raises(OSError) as caught:
        beneath(root, "in", READ | os.O_NOFOLLOW, 0)

    assert caught.value.errno == errno.ELOOP


@pytest.mark.parametrize("path", [".", "deep", "deep/", "in-deep", "in-deep/", "deep/er/.."])
def test_a_folder_is_opened_as_one(beneath: Beneath, root: int, path: str) -> None:
    for flags in (FOLDER, LISTED):
        os.close(beneath(root, path, flags, 0))


@pytest.mark.skipif(not os.path.isdir("/proc/self/fd"), reason="there is no /proc")
def test_the_magic_links_of_proc_lead_nowhere(beneath: Beneath, tmp_path: Path) -> None:
    (tmp_path / "secret").write_text(SECRET)
    held = os.open(tmp_path / "secret", os.O_RDONLY)
    proc = os.open("/proc", FOLDER)
    try:
        for path in (f"self/fd/{held}", "self/root/etc/passwd", "self/cwd", f"{os.getpid()}/exe"):
            with pytest.raises(OSError) as caught:
                content(beneath, proc, path)
            assert caught.value.errno in (errno.EXDEV, errno.ELOOP)
    finally:
        os.close(proc)
        os.close(held)


def test_no_descriptor_stays_open(beneath: Beneath, root: int) -> None:
    def opened() -> int:
        return len(os.listdir("/proc/self/fd")) if os.path.isdir("/proc/self/fd") else 0

    content(beneath, root, "a.txt")
    before = opened()
    for path in (
        "deep/er/b.txt",
        "in-deep/b.txt",
        "out-folder/secret.txt",
        "deep/../../secret.txt",
        "nothing/x",
        "loop",
    ):
        try:
            content(beneath, root, path)
        except OSError:
            continue
    assert opened() == before


PARTS = st.one_of(
    st.sampled_from(["..", ".", "", "a.txt", "deep", "er", "in-deep", "out", "out-folder", "deep/out", "in", "data"]),
    st.sampled_from(["secret.txt", "data-evil", "..%2f", "...", "~", " ", "loop", "absolute-out", "chain"]),
    st.text(string.printable + "\0é", max_size=5),
)


@given(parts=st.lists(PARTS, max_size=8), absolute=st.booleans())
@example(parts=["out-folder", "data", "a.txt"], absolute=False)
def test_no_path_gives_what_is_outside_and_the_two_ways_open_the_same(
    parts: list[str], absolute: bool, tmp_path_factory: pytest.TempPathFactory
) -> None:
    base = _standing(tmp_path_factory)
    path = ("/" if absolute else "") + "/".join(parts)
    root = os.open(base / "data", FOLDER)
    answers = set()
    try:
        for name in ("openat2", "walk") if kernel.available() else ("walk",):
            try:
                descriptor = WAYS[name](root, path, FOLDER & ~os.O_DIRECTORY, 0)
            except (OSError, ValueError):
                answers.add("refused")
                continue
            real = os.path.realpath(f"/proc/self/fd/{descriptor}")
            os.close(descriptor)
            assert Path(real).is_relative_to(base / "data")
            answers.add(real)
    finally:
        os.close(root)
    assert len(answers) == 1


def _standing(factory: pytest.TempPathFactory) -> Path:
    """One tree for all examples of a property."""
    base = factory.getbasetemp().resolve() / "standing"
    if not base.exists():
        tree(base, **{"data__a.txt": "a", "data__deep__er__b.txt": "b", "secret.txt": SECRET, "data-evil__c": SECRET})
        links = {"in": "a.txt", "in-deep": "deep/er", "out": "../secret.txt", "out-folder": "..", "chain": "in"}
        links |= {"loop": "loop", "absolute-out": "/etc", "deep/out": "../../secret.txt"}
        for name, target in links.items():
            (base / "data" / name).symlink_to(target)
    return base


def test_a_link_that_is_swapped_all_the_time_never_leads_out(beneath: Beneath, tmp_path: Path) -> None:
    tree(tmp_path, **{"data__real__x.txt": "inside", "secret__x.txt": SECRET})
    data = tmp_path / "data"
    (data / "spare").symlink_to("../secret")
    stop = threading.Event()

    def swap() -> None:
        """`way` is a folder inside, then a link out, then a folder again."""
        while not stop.is_set():
            os.rename(data / "real", data / "way")
            os.rename(data / "way", data / "real")
            os.rename(data / "spare", data / "way")
            os.rename(data / "way", data / "spare")

    swapping = threading.Thread(target=swap)
    swapping.start()
    seen: set[bytes | int | None] = set()
    root = os.open(data, FOLDER)
    try:
        for _ in range(20_000):
            try:
                seen.add(content(beneath, root, "way/x.txt"))
            except OSError as error:
                seen.add(error.errno)
    finally:
        stop.set()
        swapping.join()
        os.close(root)

    assert SECRET.encode() not in seen
    assert b"inside" in seen  # else the race was not one


def test_a_folder_that_is_moved_out_while_it_is_walked_leads_nowhere(beneath: Beneath, tmp_path: Path) -> None:
    tree(tmp_path, **{"data__one__two__x.txt": "inside", "secret.txt": SECRET, "elsewhere__y": ""})
    data, stop = tmp_path / "data", threading.Event()

    def move() -> None:
        while not stop.is_set():
            os.rename(data / "one" / "two", tmp_path / "elsewhere" / "two")
            os.rename(tmp_path / "elsewhere" / "two", data / "one" / "two")

    moving = threading.Thread(target=move)
    moving.start()
    root = os.open(data, FOLDER)
    seen: set[bytes] = set()
    try:
        for _ in range(5_000):
            for path in ("one/two/../../../secret.txt", "one/two/../../secret.txt", "one/two/x.txt"):
                try:
                    seen.add(content(beneath, root, path))
                except OSError:
                    continue
    finally:
        stop.set()
        moving.join()
        os.close(root)

    assert seen <= {b"inside"}


# Roots and the names that people give them.


def confined(tmp_path: Path, beneath: Beneath = WAYS["either"]) -> ConfinedFiles:
    tree(tmp_path, **{"data__a.txt": "a", "notes__n.txt": "n", "data-evil__c.txt": SECRET})
    settings = IoSettings(roots={"data": tmp_path / "data", "notes": tmp_path / "notes"}, write=("data",))
    return ConfinedFiles(settings, beneath)


@pytest.mark.parametrize(
    ("path", "shown"),
    [
        ("a.txt", "a.txt"),
        ("data:a.txt", "a.txt"),
        ("notes:n.txt", "notes:n.txt"),
        ("notes:", "notes:."),
        ("", "."),
        ("{}/data/a.txt", "a.txt"),
        ("{}//data/./a.txt", "a.txt"),
        ("{}/notes/n.txt", "notes:n.txt"),
        ("{}/notes", "notes:."),
        ("other:a.txt", "other:a.txt"),
    ],
)
def test_a_path_is_in_the_root_that_it_names(tmp_path: Path, path: str, shown: str) -> None:
    assert confined(tmp_path).place(path.format(tmp_path)).shown == shown


@pytest.mark.parametrize(
    "path", ["/etc/passwd", "{}/data-evil/c.txt", "{}", "{}/DATA/a.txt", "{}/x/../data/a.txt", "/"]
)
def test_an_absolute_path_outside_every_root_is_refused_with_what_there_is(tmp_path: Path, path: str) -> None:
    with pytest.raises(ToolError, match=r"is in no root; there are data: .*, notes: ") as caught:
        confined(tmp_path).place(path.format(tmp_path))

    assert caught.value.code == "outside_root"


@pytest.mark.parametrize("path", ["a\0.txt", "\0", "\ud800"])
def test_a_path_that_no_system_takes_is_refused_before_it_sees_it(tmp_path: Path, path: str) -> None:
    with pytest.raises(ToolError) as caught:
        confined(tmp_path).place(path)

    assert caught.value.code == "bad_path"


def test_a_root_that_becomes_a_link_is_not_opened_any_more(tmp_path: Path, beneath: Beneath) -> None:
    files = confined(tmp_path, beneath)
    (tmp_path / "data").rename(tmp_path / "data-old")
    (tmp_path / "data").symlink_to(tmp_path / "data-evil")

    with pytest.raises(ToolError, match="cannot be opened") as caught, files.file(files.place("c.txt")):
        pass

    assert caught.value.code == "no_root"


def test_a_root_may_be_given_by_a_link_and_is_then_what_it_led_to(tmp_path: Path) -> None:
    tree(tmp_path, **{"real__a.txt": "a"})
    (tmp_path / "link").symlink_to("real")
    files = ConfinedFiles(IoSettings(roots={"r": tmp_path / "link"}))

    for path in (f"{tmp_path}/link/a.txt", f"{tmp_path.resolve()}/real/a.txt", "a.txt"):
        with files.file(files.place(path)) as (descriptor, _):
            assert os.read(descriptor, 10) == b"a"


def test_opening_a_root_follows_no_link(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    base = os.path.realpath(tmp_path)

    os.close(open_root(f"{base}/real"))
    with pytest.raises(OSError):
        open_root(f"{base}/link")


@pytest.mark.parametrize("kind", ["pipe", "socket", "folder"])
def test_what_is_no_ordinary_file_is_refused_without_waiting(tmp_path: Path, beneath: Beneath, kind: str) -> None:
    import socket

    files = confined(tmp_path, beneath)
    path = tmp_path / "data" / "special"
    match kind:
        case "pipe":
            os.mkfifo(path)
        case "folder":
            path.mkdir()
        case "socket":
            with socket.socket(socket.AF_UNIX) as bound:
                bound.bind(os.path.relpath(path))

    with pytest.raises(ToolError) as caught, files.telling(place := files.place("special")), files.file(place):
        pass

    assert caught.value.code == "not_a_file"


def test_all_names_that_a_file_may_have_are_in_one_territory_and_no_disk_is_asked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folders = {"data": tmp_path / "data", "inner": tmp_path / "data" / "inner", "notes": tmp_path / "notes"}
    for folder in folders.values():
        folder.mkdir()
    files = ConfinedFiles(IoSettings(roots=folders))
    monkeypatch.setattr(os, "lstat", None)
    monkeypatch.setattr(os, "readlink", None)

    ways = ("a.txt", "./a.txt", "data:a.txt", "link", "x/../a.txt", f"{tmp_path}/data/a.txt", "inner:a", "inner/a")
    assert {files.territory(way) for way in ways} == {str(tmp_path / "data")}
    assert files.territory("notes:a.txt") == str(tmp_path / "notes")
    assert files.territory("a.txt", "inner:b.txt") == str(tmp_path / "data")
    assert files.territory("a.txt", "notes:b.txt") is files.territory("/elsewhere") is None


# Settings.


@pytest.mark.parametrize(
    ("data", "words"),
    [
        ({"roots": {"a": "."}, "write": ["b"]}, "names 'b', which is not there; there are a"),
        ({"roots": {"a:b": "."}}, "'a:b' cannot be a name"),
        ({"roots": {"a": ".", "b": "sub"}, "write": ["a"]}, "'b' of io may not be written, but lies inside 'a'"),
        ({"root": {}}, "unknown field `root`"),
        ({"write": "a"}, "Expected `array`"),
        ({"private": ["10.0.0.1/8"]}, "has host bits set"),
        ({"deny_hosts": ["http://bad.org"]}, "deny_hosts of io: 'http://bad.org' is not a host"),
        ({"deny_hosts": ["bad.org:80"]}, "is not a host"),
        ({"deny_hosts": ["bücher.de"]}, "as 'xn--…'"),
        ({"hosts": ["api.*.org"]}, "hosts of io: 'api.*.org' is not a host"),
        ({"limits": {"rows": 0}}, "limits.rows of io must be a number above 0"),
        ({"limits": {"rows": "many"}}, "limits.rows of io must be a number above 0"),
        ({"limits": {"lines": 1}}, "lines"),
        ({"write_databases": ["x"]}, "names 'x', which is not there; there are none"),
    ],
)
def test_settings_that_cannot_be_meant_are_refused_with_what_to_change(data: dict[str, object], words: str) -> None:
    with pytest.raises(UsageError) as caught:
        IoSettings.from_dict(data)

    assert words in str(caught.value)


def test_settings_from_a_file_are_relative_to_its_folder(tmp_path: Path) -> None:
    settings = IoSettings.from_dict(
        {"roots": {"d": "docs"}, "databases": {"b": "b.db"}, "limits": {"rows": 5}}, tmp_path
    )

    assert (settings.roots["d"], settings.databases["b"], settings.limits.rows) == (
        tmp_path / "docs",
        tmp_path / "b.db",
        5,
    )
