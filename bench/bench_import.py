"""CPU time of imports in fresh processes, beside `import asyncio`.

    python bench/bench_import.py [--rounds 15]

A table goes to stderr, JSON to stdout.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys

STATEMENTS = {
    "nothing": "pass",
    "asyncio": "import asyncio",
    "handrail": "import handrail",
    "handrail, all public names": "from handrail import *",
    "handrail, executor and journal": "from handrail import *; import handrail.journal.journal",
}
CODE = "import time; start = time.process_time(); exec({!r}); print(time.process_time() - start)"


def cpu(statement: str) -> float:
    out = subprocess.run([sys.executable, "-c", CODE.format(statement)], capture_output=True, text=True, check=True)
    return float(out.stdout) * 1000


def main(rounds: int) -> None:
    times: dict[str, list[float]] = {name: [] for name in STATEMENTS}
    for _ in range(rounds):
        for name, statement in STATEMENTS.items():
            times[name].append(cpu(statement))
    found = {name: statistics.median(each) for name, each in times.items()}
    for name, each in found.items():
        print(f"{name:36}{each:8.1f} ms", file=sys.stderr)
    print(json.dumps(found))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=15)
    main(parser.parse_args().rounds)
