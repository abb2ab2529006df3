"""Replies as they came over the wire: the only client here that tells the null array from the
null string. What it sees is the golden reply that all others are compared with."""

import socket

PATIENCE_S = 60  # only a failing test ever waits so long


class Status(bytes):
    """`+OK`"""


class Null:
    """`*-1`, `$-1` or `_`"""

    def __init__(self, kind):
        self.kind = kind


class Error:
    """An error reply, with its code word."""

    def __init__(self, text):
        self.text = text

    @property
    def code(self):
        return self.text.split(" ")[0]


class Map:
    """A map of RESP3: its pairs, in order."""

    def __init__(self, pairs):
        self.pairs = pairs


class Other(bytes):
    """A double, a boolean, a set and the like: what no command of RQ replies."""


class Connection:
    """Speaks RESP2 or RESP3, in the database it is given."""

    def __init__(self, port, db=0, protocol=2):
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=PATIENCE_S)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.replies = self.socket.makefile("rb")
        self.ok("HELLO", str(protocol))
        if db:
            self.ok("SELECT", str(db))

    def close(self):
        self.replies.close()
        self.socket.close()

    def send(self, *words):
        words = [word if isinstance(word, bytes) else str(word).encode() for word in words]
        self.socket.sendall(b"*%d\r\n" % len(words)
                            + b"".join(b"$%d\r\n%b\r\n" % (len(word), word) for word in words))

    def call(self, words):
        self.send(*words)
        return self.reply()

    def ok(self, *words):
        """The reply of a command that must succeed."""
        reply = self.call(words)
        if isinstance(reply, Error):
            raise ValueError(f"{words}: {reply.text}")
        return reply

    def pipe(self, commands):
        for words in commands:
            self.send(*words)
        return [self.reply() for _ in commands]

    def multi(self, commands):
        return self.pipe([["MULTI"], *commands, ["EXEC"]])[-1]

    def reply(self):
        line = self.replies.readline()
        if not line.endswith(b"\r\n"):
            raise ConnectionError("the server closed the connection")
        kind, rest = line[:1], line[1:-2]
        if kind == b"+":
            return Status(rest)
        if kind == b"-":
            return Error(rest.decode())
        if kind == b":":
            return int(rest)
        if kind == b"_" or (kind in b"$*" and rest == b"-1"):
            return Null({b"_": "null", b"$": "null string", b"*": "null array"}[kind])
        if kind in b"$=":
            text = self.replies.read(int(rest) + 2)[:-2]
            return text if kind == b"$" else Other(text)
        if kind == b"*":
            return [self.reply() for _ in range(int(rest))]
        if kind == b"%":
            return Map([(self.reply(), self.reply()) for _ in range(int(rest))])
        if kind in b"~>":
            return Other(b"%b%r" % (kind, [self.reply() for _ in range(int(rest))]))
        return Other(line[:-2])


def quoted(text):
    """Bytes as redis-cli shows them."""
    return '"' + "".join(chr(b) if 32 <= b < 127 and b not in b'"\\' else f"\\x{b:02x}" for b in text) + '"'


def rendered(reply):
    """A reply as one line of text."""
    if isinstance(reply, (Status, Other)):
        return ("+" if isinstance(reply, Status) else "other ") + reply.decode(errors="replace")
    if isinstance(reply, bytes):
        return quoted(reply)
    if isinstance(reply, Null):
        return f"({reply.kind})"
    if isinstance(reply, Error):
        return f"-{reply.text}"
    if isinstance(reply, list):
        return "[" + " ".join(map(rendered, reply)) + "]"
    if isinstance(reply, Map):
        return "{" + ", ".join(f"{rendered(k)}: {rendered(v)}" for k, v in reply.pairs) + "}"
    return str(reply)
