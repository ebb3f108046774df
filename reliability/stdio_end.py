"""What an MCP client starts in the place of a server: it passes its standard input and output to the program that waits
at a socket, which has the real server. `python -IS stdio_end.py SOCKET`; it imports next to nothing.
"""

import socket
import sys

with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as door:
    door.connect(sys.argv[1])
    socket.send_fds(door, [b"x"], [0, 1])
    door.recv(1)  # until the server is gone
