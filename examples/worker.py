#!/usr/bin/env python3
"""A worker for RQ, to copy from. Python's standard library is all it needs.

    examples/worker.py PORT QUEUE NAME [BYTES-PER-SECOND]

Each job names a text file; the work is to count its words and take its digest. Put your own work
into `count_words`; the rest stays. SIGTERM: it gives back what it holds, and ends.
"""

import hashlib
import signal
import socket
import sys
import threading
import time

BLOCK_MS = 2_000          # how long RQ.LEASE waits for a job; well below the socket's timeout
SOCKET_TIMEOUT_S = 10
# These error codes pass by themselves (a restart, a failover): try again. All others are mistakes.
PASSING = ("LOADING", "READONLY", "MASTERDOWN", "CLUSTERDOWN", "TRYAGAIN", "BUSY", "UNBLOCKED")


class Server:
    """One connection. Any client library will do as well."""

    def __init__(self, port):
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=SOCKET_TIMEOUT_S)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.replies = self.socket.makefile("rb")

    def __call__(self, *words):
        words = [word if isinstance(word, bytes) else str(word).encode() for word in words]
        self.socket.sendall(b"*%d\r\n" % len(words)
                            + b"".join(b"$%d\r\n%b\r\n" % (len(word), word) for word in words))
        return self.reply()

    def reply(self):
        line = self.replies.readline()
        if not line.endswith(b"\r\n"):
            raise ConnectionError("the server closed the connection")
        kind, rest = line[:1], line[1:-2]
        if kind == b":":
            return int(rest)
        if kind == b"$":
            return None if rest == b"-1" else self.replies.read(int(rest) + 2)[:-2]
        if kind == b"*":
            return None if rest == b"-1" else [self.reply() for _ in range(int(rest))]
        if kind == b"-":
            code = rest.split()[0].decode()
            raise (ConnectionError if code in PASSING else ValueError)(rest.decode())
        return rest


class Job:
    """A leased job, with a heartbeat from a thread and a connection of its own.

    A thread serves as long as the work lets others run; work that doesn't (a long call into C
    that keeps Python's lock) needs a process for the heartbeat.
    """

    def __init__(self, worker, job_id, token, deliveries, payload, lease_ms, *_):
        self.worker, self.id, self.token = worker, job_id.decode(), token
        self.deliveries, self.payload, self.lease_ms = deliveries, payload, lease_ms
        self.lost = False  # somebody else has it by now, or it was cancelled: stop
        self.over = threading.Event()
        self.beating = threading.Thread(target=self.beat, daemon=True)

    def beat(self):
        server = None
        while not self.over.wait(self.lease_ms / 3 / 1000):
            try:
                server = server or Server(self.worker.port)
                [code] = server("RQ.EXTEND", self.worker.queue, self.id, self.token)
                if code != 1:
                    self.lost = True
                    return
            except OSError:
                server = None  # the lease has not ended yet: the next beat may get through

    def __enter__(self):
        self.beating.start()
        return self

    def __exit__(self, *_):
        self.over.set()
        self.beating.join()


class Stop(BaseException):
    """SIGTERM came in the middle of a job."""


class Worker:
    def __init__(self, port, queue, name):
        self.port, self.queue, self.name = port, queue, name
        self.server = None
        self.stopping = self.interruptible = False
        signal.signal(signal.SIGTERM, self.stop)

    def stop(self, *_):
        self.stopping = True
        if self.interruptible:
            self.interruptible = False
            raise Stop

    def call(self, *words):
        """Sends a command until its reply comes.

        It is safe to send these again. A lease whose reply got lost ends by itself. ACK, NACK and
        RELEASE with the same token do nothing the second time.
        """
        while True:
            try:
                self.server = self.server or Server(self.port)
                return self.server(*words)
            except OSError as error:  # a timeout, too
                self.server = None
                if self.stopping:
                    sys.exit(f"{self.name} stops without the server: its lease will end by itself")
                self.say(f"lost the server ({error}), trying again")
                time.sleep(1)

    def run(self, handler):
        while not self.stopping:
            for leased in self.call("RQ.LEASE", self.queue, self.name, "BLOCK", BLOCK_MS) or []:
                with Job(self, *leased) as job:
                    settle = self.handle(handler, job)
                [code] = self.call(*settle)
                self.say(f"{settle[0][3:].lower()} {code} {job.id}")

    def handle(self, handler, job):
        """Does the work; returns the command that settles the job."""
        self.say(f"took {job.deliveries} {job.id} {job.payload.decode(errors='replace')}")
        verb, rest = "RQ.ACK", []
        try:
            try:
                self.interruptible = True
                if self.stopping:
                    raise Stop
                handler(job)
            except Exception as error:
                verb, rest = "RQ.NACK", ["ERROR", f"{type(error).__name__}: {error}"]
            self.interruptible = False
        except Stop:
            verb, rest = "RQ.RELEASE", []  # this delivery does not count
            self.server = None             # it may be in the middle of a reply
        return verb, self.queue, job.id, job.token, *rest

    def say(self, text):
        print(f"{self.name} {text}", flush=True)


# --- the work ---

BYTES_PER_SECOND = float("inf")

# A result is stored under the job's id, so a second run does not make a second one; and it is
# refused if a later lease has stored one already: the token is a fence. A database does the same:
#   INSERT ... ON CONFLICT (id) DO UPDATE SET ... WHERE excluded.token >= results.token
STORE = """
if tonumber(redis.call('HGET', KEYS[1], 'token') or 0) > tonumber(ARGV[1]) then return 0 end
return redis.call('HSET', KEYS[1], 'token', ARGV[1], 'words', ARGV[2], 'sha256', ARGV[3]) and 1
"""


def count_words(job):
    with open(job.payload.decode(), "rb") as file:
        content = file.read()
    words = len(content.decode("utf-8").split())  # a file that is no text: this raises, so NACK
    end = time.monotonic() + len(content) / BYTES_PER_SECOND
    while time.monotonic() < end:                 # work that takes its time
        time.sleep(0.01)
        if job.lost:
            return                                # the ACK will say 0 or -1
    job.worker.call("EVAL", STORE, 1, f"result:{job.id}", job.token, words,
                    hashlib.sha256(content).hexdigest())


if __name__ == "__main__":
    if len(sys.argv) < 4:
        sys.exit(__doc__)
    if len(sys.argv) > 4:
        BYTES_PER_SECOND = float(sys.argv[4])
    Worker(int(sys.argv[1]), sys.argv[2], sys.argv[3]).run(count_words)
