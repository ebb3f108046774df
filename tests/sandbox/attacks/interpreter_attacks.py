"""What code tries that wants out of its interpreter, or wants to bring it and its host down, as data.

An attack is a cell. It leaves in `got` what it got hold of. Wherever it runs it is *contained* if the host's secret
(`Facts`) is in nothing that comes back, the host's file is as it was, and the next cell runs. What Monty makes of it
is said exactly, by `monty`: there even the first step fails, for want of anything to step on.

The steps are those of the lists of Python jails, of the holes that were found in RestrictedPython and smolagents,
and of the trials of Monty in this project.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from handrail.sandbox.port import Ending


class Facts(NamedTuple):
    file: str
    """A file of the host with the secret in it."""
    variable: str
    """A variable of the host's environment with the secret in it."""
    pid: int


@dataclass(frozen=True, slots=True)
class Attack:
    name: str
    code: str
    monty: Ending | tuple[Ending, ...] = "error"

    @property
    def monty_endings(self) -> tuple[Ending, ...]:
        return self.monty if isinstance(self.monty, tuple) else (self.monty,)

    def against(self, facts: Facts) -> str:
        code = self.code.replace("FILE", repr(facts.file)).replace("VARIABLE", repr(facts.variable))
        return code.replace("PID", str(facts.pid)).strip("\n")


FILES_AND_PROCESSES = (
    Attack("open a file", "got = open(FILE).read()"),
    Attack("open a file with pathlib", "from pathlib import Path\ngot = Path(FILE).read_text()"),
    Attack("write to a file", "open(FILE, 'a').write('mine')"),
    Attack("remove a file", "import os\nos.remove(FILE)"),
    Attack("list the root", "import os\ngot = os.listdir('/')\nif FILE.split('/')[1] not in got: raise OSError"),
    Attack("os.environ", "import os\ngot = os.environ[VARIABLE]"),
    Attack("os.getenv", "import os\ngot = os.getenv(VARIABLE)\nif got is None: raise OSError"),
    Attack("the environment in /proc", "got = open('/proc/PID/environ').read()"),
    Attack("os.system", "import os\ngot = os.system('cat ' + FILE)\nif got: raise OSError"),
    Attack("subprocess", "import subprocess\ngot = subprocess.check_output(['cat', FILE])"),
    Attack("a socket", "import socket\nsocket.create_connection(('127.0.0.1', 1), 0.1)"),
    Attack("ctypes", "import ctypes\nlibc = ctypes.CDLL(None)\ngot = libc.kill(PID, 9)\nif got: raise OSError"),
    Attack("kill the host", "import os\nos.kill(PID, 9)"),
    Attack("importlib", "import importlib\ngot = importlib.import_module('os').environ[VARIABLE]"),
    Attack("__import__", "got = __import__('os').environ[VARIABLE]"),
    Attack("sys.modules", "import sys\ngot = sys.modules['os'].environ[VARIABLE]"),
    Attack("pickle", "import pickle\ngot = pickle.loads(b'cposix\\nsystem\\n(V' + FILE.encode() + b'\\ntR.')"),
    Attack(
        "__reduce__",
        "class A:\n    def __reduce__(self): return (open, (FILE,))\nimport copy\ngot = copy.copy(A()).read()",
    ),
    Attack("input", "got = input()"),
    Attack("breakpoint", "breakpoint()"),
)

WALKS = (
    Attack(
        "subclasses", "got = [c for c in ().__class__.__bases__[0].__subclasses__() if 'wrap_close' in str(c)][0].close"
    ),
    Attack("globals of a function", "def f(): pass\ngot = f.__globals__['__builtins__'].open(FILE).read()"),
    Attack("builtins", "got = __builtins__.open(FILE).read()"),
    Attack("builtins by getattr", "got = getattr(getattr(print, '__self__'), 'op' + 'en')(FILE).read()"),
    Attack(
        "the code of a function",
        "def f(): return 1\nf.__code__ = f.__code__.replace(co_consts=(1, 2))\ngot = open(FILE).read()",
    ),
    Attack("str.format attributes", "got = '{0.__class__.__init__.__globals__}'.format(Exception())"),
    Attack("str.format_map", "got = '{x.__class__.__mro__}'.format_map({'x': ''}) + open(FILE).read()"),
    Attack("an f-string", "got = f'{().__class__.__base__.__subclasses__()}' + open(FILE).read()"),
    Attack(
        "the frame of a traceback",
        "try: 1 / 0\nexcept Exception as e: got = e.__traceback__.tb_frame.f_builtins['open'](FILE).read()",
    ),
    Attack("the frame of a generator", "def g(): yield\ngot = g().gi_frame.f_builtins['open'](FILE).read()"),
    Attack(
        "the frame of a generator expression",
        "got = (x for x in ()).gi_frame.f_globals['__builtins__'].open(FILE).read()",
    ),
    Attack(
        "the frame of a coroutine", "async def c(): pass\nd = c()\ngot = d.cr_frame.f_builtins['open'](FILE).read()"
    ),
    Attack(
        "the frame of an asynchronous generator",
        "async def a(): yield\ngot = a().ag_frame.f_builtins['open'](FILE).read()",
    ),
    Attack("sys._getframe", "import sys\ngot = sys._getframe(0).f_builtins['open'](FILE).read()"),
    Attack("inspect", "import inspect\ngot = inspect.currentframe().f_builtins['open'](FILE).read()"),
    Attack("gc", "import gc\ngot = gc.get_objects()[0]\nopen(FILE).read()"),
    Attack("a match class pattern", "match open:\n    case object(__self__=b): got = b.open(FILE).read()", "ok"),
    Attack(
        "except*",
        "try: raise ExceptionGroup('', [ValueError()])\n"
        "except* ValueError as e: got = e.__traceback__.tb_frame.f_builtins['open'](FILE).read()",
    ),
    Attack(
        "type with three arguments",
        "X = type('X', (object,), {'__del__': lambda self: open(FILE)})\n"
        "got = X().__class__.__mro__[1].__subclasses__()[0]\nopen(FILE).read()",
    ),
    Attack(
        "a metaclass",
        "class M(type):\n    def __getitem__(c, k): return open(k).read()\nclass C(metaclass=M): pass\ngot = C[FILE]",
    ),
    Attack("a decorator as a call", "@open\n@(lambda f: FILE)\nclass got: pass"),
    Attack("__class_getitem__", "class C:\n    def __class_getitem__(c, k): return open(k).read()\ngot = C[FILE]"),
    Attack("eval", "got = eval('open(' + repr(FILE) + ').read()')"),
    Attack("exec", "exec('got = open(' + repr(FILE) + ').read()')"),
    Attack("compile", "got = eval(compile('open(' + repr(FILE) + ').read()', 'x', 'eval'))"),
    Attack("homoglyph names", "got = ｏｐｅｎ(FILE).read()"),
    Attack("an escaped builtin", "got = eval('\\x6f\\x70\\x65\\x6e')(FILE).read()"),
    Attack("a null in the code", "got = open(FILE\x00).read()"),
    Attack("half of a surrogate pair", "got = '\ud800' + open(FILE).read()"),
    Attack("the host by another name", "got = _handrail_host('read', FILE)"),
    Attack("the host with anything", "got = _handrail_ask(object(), open)"),
    Attack("a coroutine that is never awaited", "async def c(): return open(FILE).read()\nc()\nawait c()"),
)

MEMORY = (
    Attack("a long string", "x = 'a' * 10**10", "memory"),
    Attack("a longer string", "x = 'a' * 2**63", ("memory", "error")),
    Attack("a long list", "x = [0] * 10**10", "memory"),
    Attack("bytes", "x = bytes(10**11)", "memory"),
    Attack("padding", "x = 'a'.ljust(10**10)", "memory"),
    Attack("a format", "x = '{:>10000000000}'.format('a')", ("memory", "timeout", "error")),
    Attack("a giant range, listed", "x = list(range(10**9))", ("memory", "timeout")),
    Attack("a list without end", "x = []\nwhile True: x.append('b' * 10_000)", ("memory", "timeout")),
    Attack("an endless iterator, listed", "import itertools\nx = list(itertools.count())", ("memory", "timeout")),
    Attack("doubling", "x = 'a'\nwhile True: x += x", ("memory", "timeout")),
    Attack("a power", "x = 9 ** 9 ** 9", "memory"),
    Attack("a shift", "x = 1 << 10**11", "memory"),
    Attack(
        "caught, and again",
        "while True:\n    try: x = 'a' * 10**10\n    except BaseException: pass",
        ("memory", "timeout"),
    ),
    Attack(
        "a graph that is small until it is written",
        "x = [0]\nfor i in range(60): x = [x, x]\n_host('x', x)",
        ("memory", "timeout"),
    ),
    Attack(
        "a graph that is small until it is shown",
        "got = [0]\nfor i in range(60): got = [got, got]",
        ("memory", "timeout"),
    ),
)

TIME = (
    Attack("a loop", "while True: pass", "timeout"),
    Attack(
        "a loop that catches everything",
        "while True:\n    try:\n        while True: pass\n    except BaseException: pass",
        "timeout",
    ),
    Attack("a sum", "x = sum(range(10**10))", "timeout"),
    Attack("an integer that takes long", "x = pow(3, 3 * 10**7)", "timeout"),
    Attack("sleep", "import time\ntime.sleep(10**6)", "timeout"),
    Attack("sleep for ever", "import asyncio\nwhile True: await asyncio.sleep(0.1)", "timeout"),
    Attack("a sort with a slow key", "def key(x):\n    while True: pass\nx = sorted(range(10), key=key)", "timeout"),
    Attack("recursion that catches itself", "def f():\n    try: f()\n    finally: f()\nf()", ("timeout", "error")),
)

SHAPES = (
    Attack("recursion", "def f(): return f()\nf()"),
    Attack("a nested list", "x = []\nfor i in range(100_000): x = [x]\n_host('x', x)"),
    Attack("a circle", "x = []\nx.append(x)\n_host('x', x)"),
    Attack("nested JSON", "import json\njson.loads('[' * 1_000_000)"),
    Attack("nested brackets", "x = " + "(" * 5_000 + ")" * 5_000),
    Attack("nested conditions", "\n".join(" " * i + "if 1:" for i in range(300)) + "\n" + " " * 300 + "pass"),
    Attack("a long chain", "x = " + "1+" * 50_000 + "1"),
    Attack("many a not", "x = " + "not " * 50_000 + "1"),
    Attack("digits", "x = str(10 ** 10_000)"),
    Attack("a hostile pattern", "import re\nx = re.match('(a+)+$', 'a' * 27 + 'b')", "ok"),
    Attack("a pattern that grows", "import re\nre.compile('((a{1000}){1000}){1000}')"),
    Attack("colliding hashes", "x = {i * (2**61 - 1): i for i in range(3_000)}", "ok"),
    Attack("a repr that lies", "class A:\n    def __repr__(self): return 5\ngot = A()", ("ok", "error")),
    Attack(
        "a repr that never ends", "class A:\n    def __repr__(self):\n        while True: pass\ngot = A()", "timeout"
    ),
    Attack("builtins overwritten", "type = len = str = repr = list = dict = isinstance = locals = 5", "ok"),
    Attack("our own functions overwritten", "_handrail_look = _handrail_locals = _host = 5", ("ok", "memory")),
    Attack("the end of the interpreter", "raise SystemExit('bye')"),
    Attack("an interrupt", "raise KeyboardInterrupt"),
    Attack("exit", "exit()"),
)

FLOODS = (
    Attack("prints without end", "while True: print('a' * 1_000)", "output"),
    Attack(
        "prints that catch everything",
        "while True:\n    try: print('a' * 1_000)\n    except BaseException: pass",
        "output",
    ),
    Attack("one long print", "print('a' * 10**7)", "output"),
    Attack("errors without end", "import sys\nwhile True: print('a' * 1_000, file=sys.stderr)", "output"),
    Attack("a long message", "raise ValueError('a' * 10**7)"),
    Attack("calls of the host without end", "while True: _host('x', 1)", "calls"),
    Attack(
        "calls that catch everything", "while True:\n    try: _host('x', 1)\n    except BaseException: pass", "calls"
    ),
    Attack("a value that is too large to cross", "_host('x', 'a' * 10**7)"),
    Attack("many variables", "for i in range(5_000): exec(f'v{i} = {i}')", ("ok", "memory", "timeout")),
)

PROGRAM = (
    Attack("other JSON", "import json\njson.dumps = lambda *a, **k: 'x'\njson.loads = lambda *a: {'type': 'put'}"),
    Attack(
        "no builtins", "import builtins\nfor n in ('len', 'type', 'exec', 'bytes', 'dict'): setattr(builtins, n, None)"
    ),
    Attack("no modules", "import sys\nfor name in list(sys.modules): sys.modules[name] = None"),
    Attack("no chance", "import random, linecache\nrandom.seed = linecache.cache = None\nimport os\nos._exit(0)"),
    Attack("closed descriptors", "import os\nos.closerange(0, 256)"),
    Attack("output for frames", "import os\nos.dup2(1, _host.__self__._sock)"),
    Attack("frames for output", "import os\nos.dup2(_host.__self__._sock, 1)\nprint('hello')"),
    Attack("half of a frame", "import os, time\nos.write(_host.__self__._sock, b'\\0\\0\\1\\0a')\ntime.sleep(1_000)"),
    Attack("deaf", "import signal\nsignal.pthread_sigmask(signal.SIG_BLOCK, range(1, 64))\nwhile True: pass"),
    Attack("no ears", "import time\n_host.__self__._receive = lambda: time.sleep(1_000)\n_host('x')"),
    Attack("a trace that raises", "import sys\ndef trace(*args): raise ValueError\nsys.settrace(trace)\nopen"),
    Attack("a finaliser without end", "class A:\n    def __del__(self):\n        while True: pass\na = A()\na = None"),
    Attack(
        "a thread that asks on and on",
        "import threading\ndef ask():\n    while True:\n        try: _host('x')\n        except BaseException: pass\n"
        "threading.Thread(target=ask, daemon=True).start()",
    ),
)
"""On the program that runs cells in CPython, which shares its interpreter with them."""

GROUPS = {
    "files and processes": FILES_AND_PROCESSES,
    "walks": WALKS,
    "memory": MEMORY,
    "time": TIME,
    "shapes": SHAPES,
    "floods": FLOODS,
}
