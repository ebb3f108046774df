"""A small HTTP/1.1 client: what asking a service takes, and nothing more.

httptools reads the answers. No redirects, cookies, sessions or retries: who asks
knows better. `client` keeps connections, `connection` is one; `address` reads URLs,
`request_head` writes requests.
"""

from handrail.http.address import HttpAddress, request_head
from handrail.http.client import HttpAnswer, HttpClient
from handrail.http.connection import BadHttpAnswer, HttpNotConnected

__all__ = ["BadHttpAnswer", "HttpAddress", "HttpAnswer", "HttpClient", "HttpNotConnected", "request_head"]
