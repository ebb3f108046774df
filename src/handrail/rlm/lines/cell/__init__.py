"""The program that answers a question about lines in a REPL: Python that CPython and Monty both run.

It is sent to the REPL as the text of these modules, one after the other, without what they import of each other
(`program.py`). Every number that it says was counted here, or stands in a line that is shown.
"""
