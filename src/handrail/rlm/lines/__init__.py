"""Questions that code answers by lines (how many, which, the first, the last), for models too small to count.

`question.py` reads the question, `forms.py` makes a word's forms, and `cell/` is the program that a REPL runs.
"""
