"""A tool's schema as each service takes it, and a report of what it could not be told.

The full schema is always enforced here, after the call has come back. A projection
only helps the model to write the call, so what is lost costs a second try, never a
wrong argument.
"""
