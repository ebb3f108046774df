"""Monty: the interpreter without authority."""
