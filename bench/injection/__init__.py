"""How well policies hold against prompt injection, and what they cost honest work: `python -m bench injection`."""
