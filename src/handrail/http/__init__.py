"""A small HTTP/1.1 client: what asking a service takes, and nothing more.

httptools reads the answers. No redirects, cookies, sessions or retries: who asks
knows better. `client` keeps connections, `connection` is one; `address` reads URLs,
`head` writes requests.
"""

from handrail.http.address import Address
from handrail.http.client import Answer, Client
from handrail.http.connection import BadAnswer, NotConnected
from handrail.http.head import head

__all__ = ["Address", "Answer", "BadAnswer", "Client", "NotConnected", "head"]
