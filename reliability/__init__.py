"""One payment through every door, with somebody killed at every step: `python -m reliability` prints the table.

`moments.py` has the steps at which a process dies, `processes.py` starts processes that die at one, `wires.py` stands
between two of them and counts messages, `stage.py` is the shop with its book of payments, `sweep.py` tries every moment
and judges what came of it. `rows/` has one row of the table in each file.
"""
