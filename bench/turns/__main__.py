"""`python -m bench turns`: see `bench.turns.run`."""

from bench.turns.run import main

main()
