"""Fetch the public JSON Schema test suite into `.cache/json-schema-test-suite/`.

It comes through pip, from the source package of `jsonschema`, which carries the
whole suite. The archive is checked against a fixed SHA-256, only its `json/`
folder is unpacked, and the folder appears whole or not at all.
"""

from __future__ import annotations

import hashlib
import shutil
import sys
import tarfile
import tempfile
from pathlib import Path, PurePosixPath

from handrail.core.watched_command import CommandSilent, ProgressLine, run_pip

PACKAGE = "jsonschema"
VERSION = "4.26.0"
SHA256 = "0c26707e2efad8aa1bfc5b7ce170f3fccc2e4918ff85989ba9ffa9facb2be326"
TARGET = Path(__file__).resolve().parent.parent / ".cache" / "json-schema-test-suite"


def main() -> int:
    if (TARGET / "tests").is_dir():
        print(f"already there: {TARGET}")
        return 0
    TARGET.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=TARGET.parent) as folder:
        archive = _download(Path(folder))
        unpacked = Path(folder) / "suite"
        _unpack(archive, unpacked)
        shutil.rmtree(TARGET, ignore_errors=True)
        unpacked.rename(TARGET)
    print(f"fetched: {TARGET}")
    return 0


def _download(folder: Path) -> Path:
    wanted = f"{PACKAGE}=={VERSION}"
    print(f"· fetching the JSON Schema test suite out of {wanted}", flush=True)
    download = ["download", "--no-deps", "--no-binary", PACKAGE, wanted, "-d", str(folder)]
    with ProgressLine() as progress:
        try:
            done = run_pip(download, wanted, show=progress.show)
        except CommandSilent as error:
            raise SystemExit(str(error)) from None
    if done.code:
        raise SystemExit(f"pip could not fetch {wanted}: {done.reason}")
    archive = folder / f"{PACKAGE}-{VERSION}.tar.gz"
    found = hashlib.sha256(archive.read_bytes()).hexdigest()
    if found != SHA256:
        raise SystemExit(f"{archive.name} has SHA-256 {found}, expected {SHA256}; nothing was unpacked")
    return archive


def _unpack(archive: Path, target: Path) -> None:
    top = f"{PACKAGE}-{VERSION}/json/"
    with tarfile.open(archive) as tar:
        for member in tar:
            inside = PurePosixPath(member.name.removeprefix(top))
            if not (member.isfile() and member.name.startswith(top)) or ".." in inside.parts or inside.is_absolute():
                continue
            content = tar.extractfile(member)
            if content is not None:
                path = target / inside
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(content.read())


if __name__ == "__main__":
    sys.exit(main())
