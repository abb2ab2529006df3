"""The clients. Each runs in a process of its own, `drivers/*`, that does what it is told on its
stdin and answers on its stdout, a line of JSON each:

    {"do": "call", "commands": [[word, ...]]}        one command (its reply in an array)
    {"do": "pipe" or "multi", "commands": [...]}     several

Words are hexadecimal. A reply is null, an integer, an array, {"text": hex}, {"map": [[name, value],
...]} or {"error": text}: what the client's user gets, only spelled in JSON.
"""

import json
import subprocess
import sys
from pathlib import Path

import packages
from packages import Unavailable
from server import release
from steps import plain
from wire import Error, Map, Null

DRIVERS = Path(__file__).resolve().parent / "drivers"


class Raw:
    """The wire itself."""

    def __init__(self, connection):
        self.call, self.pipe, self.multi = connection.call, connection.pipe, connection.multi
        self.close, self.connection = connection.close, connection

    def blocked(self, words, release):
        self.connection.send(*words)
        release()
        return self.connection.reply()


class Driven:
    """A client in its process."""

    def __init__(self, command, env=None):
        self.child = subprocess.Popen([str(word) for word in command], stdin=subprocess.PIPE,
                                      stdout=subprocess.PIPE, env=env)

    def send(self, do, commands):
        words = [[(word if isinstance(word, bytes) else word.encode()).hex() for word in command]
                 for command in commands]
        self.child.stdin.write(json.dumps({"do": do, "commands": words}).encode() + b"\n")
        self.child.stdin.flush()

    def replies(self):
        line = self.child.stdout.readline()
        if not line:
            raise ChildProcessError(f"the driver ended with {self.child.wait()}")
        return decoded(json.loads(line))

    def call(self, words):
        self.send("call", [words])
        return self.replies()[0]

    def blocked(self, words, release):
        self.send("call", [words])
        release()
        return self.replies()[0]

    def pipe(self, commands):
        self.send("pipe", commands)
        return self.replies()

    def multi(self, commands):
        self.send("multi", commands)
        return self.replies()

    def close(self):
        self.child.stdin.close()
        self.child.stdout.close()
        try:
            self.child.wait(5)
        except subprocess.TimeoutExpired:
            self.child.kill()
            self.child.wait()


def decoded(reply):
    match reply:
        case None:
            return Null("null")
        case list():
            return [decoded(each) for each in reply]
        case {"text": text}:
            return bytes.fromhex(text)
        case {"map": pairs}:
            return Map([(decoded(name), decoded(value)) for name, value in pairs])
        case {"error": text}:
            return Error(text)
        case _:
            return reply


class Kind:
    """One client: how it is started, and whether its users see the code ERR, or only a class."""

    def __init__(self, name, command, protocols=(2, 3), shows_err=True):
        self.name, self.command, self.protocols, self.shows_err = name, command, protocols, shows_err

    def start(self, port, db, protocol):
        command, env = self.command()
        return Driven([*command, str(port), str(db), str(protocol)], env)

    def view(self, reply):
        """What this client can tell of a reply."""
        return plain(reply, self.shows_err)


def python(driver, *args):
    return lambda: ([sys.executable, "-B", DRIVERS / driver, *args], packages.python())


def node(library):
    return lambda: (["node", DRIVERS / "node_clients.js", library], packages.node())


def rust():
    program = release("examples/redis_rs")
    if not program.exists():
        raise Unavailable("not built: cargo build --release --examples")
    return [program], None


def cli(kind):
    return lambda: ([sys.executable, "-B", DRIVERS / "cli.py", packages.cli(kind)], None)


CLIENTS = [
    Kind("redis-py", python("redis_py.py", "redis"), shows_err=False),
    Kind("valkey-py", python("redis_py.py", "valkey"), shows_err=False),
    Kind("valkey-glide", python("valkey_glide.py")),
    Kind("ioredis", node("ioredis")),
    Kind("iovalkey", node("iovalkey"), protocols=(2,)),
    Kind("node-redis", node("redis")),
    Kind("redis-rs", rust),
    Kind("redis-cli", cli("redis")),
    Kind("valkey-cli", cli("valkey")),
]
