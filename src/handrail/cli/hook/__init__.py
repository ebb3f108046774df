"""`handrail hook`: the rules and the record for what a coding agent does with its own tools.

The agent starts a process for each call, twice. Nothing here but `commands.py` imports click, and nothing imports
asyncio or the tools, so that a decision with its entries takes less than 100 ms of CPU; a test counts what is loaded.
"""
