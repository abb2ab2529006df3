#!/usr/bin/env python3
"""A queue that is too hot for one shard, split by name: NAME:{0}, NAME:{1}, ... on the shards of a
cluster. docs/CLUSTER.md tells why each step is as it is.

    parts.py PORT make NAME N [RQ.CREATE's options]
    parts.py PORT push NAME          a job for each line of its input: GROUP PAYLOAD
    parts.py PORT once NAME          the same: DEDUP-KEY PAYLOAD
    parts.py PORT work NAME WORKER   until SIGTERM; a line for each job: BEGUN PART PAYLOAD
    parts.py PORT resize NAME N      more parts or fewer, with producers and workers at it

PORT is that of any node. Put your own work into `work`; the heartbeat of a long job is in
examples/worker.py.
"""

import hashlib
import itertools
import re
import signal
import sys
import time
import uuid
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "examples"))
sys.dont_write_bytecode = True
from worker import Server  # noqa: E402

BLOCK_MS = 500      # how long a worker waits at one part before it looks at all of them again
KNOWN_S = 1         # how long a process believes what it knows of the number of parts
SWITCH_S = 4        # after so long every process has heard of another number
PATIENCE_S = 60


class Cluster:
    """Goes after redirections, as the cluster client of any library does."""

    def __init__(self, port):
        self.seed, self.nodes, self.homes = port, {}, {}

    def __call__(self, verb, key, *words):
        """Sends a command until its reply comes. What it is used for may be sent twice."""
        end, asking = time.monotonic() + PATIENCE_S, None
        while True:
            port = asking or self.homes.get(key, self.seed)
            try:
                node = self.nodes[port] = self.nodes.get(port) or Server(port)
                if asking:
                    node("ASKING")
                asking = None
                return node(verb, key, *words)
            except ValueError as error:
                if not (moved := re.match(r"(MOVED|ASK) \d+ .*:(\d+)$", str(error))):
                    raise
                if moved[1] == "MOVED":
                    self.homes[key] = int(moved[2])
                else:
                    asking = int(moved[2])
            except OSError:
                self.nodes.pop(port, None)
                self.homes.pop(key, None)
                if time.monotonic() > end:
                    raise
                time.sleep(0.02)


class Parts:
    """How many parts there are, and before the last change: the string NAME:parts says it."""

    def __init__(self, cluster, name):
        self.cluster, self.name, self.read_at = cluster, name, None

    def numbers(self):
        if self.read_at is None or time.monotonic() - self.read_at > KNOWN_S:
            self.read_at = time.monotonic()
            self.now, self.before = map(int, self.cluster("GET", f"{self.name}:parts").split())
        return self.now, self.before

    def key(self, part):
        return f"{self.name}:{{{part}}}"

    def write(self, now, before):
        self.cluster("SET", f"{self.name}:parts", f"{now} {before}")
        self.read_at = None


def choose(word, n):
    """The part of a group or of a dedup key. From n to m parts only those move that have to."""
    return max(range(n), key=lambda part: hashlib.sha256(f"{part} {word}".encode()).digest())


def push(parts, group, payload):
    # A name of its own: a push that is sent again, its reply being lost, is stored once.
    own = ("DEDUP", uuid.uuid4().hex, "WINDOW", 600_000)
    while True:
        try:
            key = parts.key(choose(group, parts.numbers()[0]))
            return parts.cluster("RQ.PUSH", key, payload, "GROUP", group, *own)
        except ValueError as error:
            if not str(error).startswith("PAUSED"):
                raise
            time.sleep(0.05)        # the part is about to go: soon there is another number
            parts.read_at = None


def push_once(parts, dedup, payload):
    """Where the key is alive, else where it belongs."""
    now, before = parts.numbers()
    part, old = choose(dedup, now), choose(dedup, before)
    if part != old and parts.cluster("RQ.GET", parts.key(old), "DEDUP", dedup) is not None:
        part = old
    return parts.cluster("RQ.PUSH", parts.key(part), payload, "DEDUP", dedup, "WINDOW", 600_000)


def work(parts, name):
    """Each turn begins one part further. Only who finds nothing at all waits, at one part; workers
    wait at different ones."""
    stopping = []
    signal.signal(signal.SIGTERM, lambda *_: stopping.append(True))
    first = int(hashlib.sha256(name.encode()).hexdigest(), 16)
    for turn in itertools.count(first):
        if stopping:
            return
        n = max(parts.numbers())
        taken = [take(parts, (turn + i) % n, name) for i in range(n)]
        if not any(taken):
            take(parts, turn % n, name, "BLOCK", BLOCK_MS)


def take(parts, part, name, *options):
    key = parts.key(part)
    jobs = parts.cluster("RQ.LEASE", key, name, *options) or []
    for job_id, token, _, payload, *_ in jobs:
        begun = time.time()
        # Here the work is done.
        if parts.cluster("RQ.ACK", key, job_id, token) == [1]:
            print(f"{begun:.6f}", part, payload.decode(), flush=True)
    return len(jobs)


def make(parts, n, options):
    for part in range(n):
        parts.cluster("RQ.CREATE", parts.key(part), *options)
    parts.write(n, n)


def resize(parts, n):
    now, _ = parts.numbers()
    if n > now:
        grow(parts, now, n)
    elif n < now:
        shrink(parts, now, n)


def grow(parts, now, n):
    """The new parts take jobs at once, and give none away before the old parts have finished all
    of the groups that have moved: so each group keeps its order."""
    for part in range(now, n):
        parts.cluster("RQ.CREATE", parts.key(part), *policy(parts))
        parts.cluster("RQ.PAUSE", parts.key(part), "OUT", "REASON", "the parts before finish first")
    parts.write(n, now)
    time.sleep(SWITCH_S)
    while any(choose(group, n) != part for part in range(now) for group in groups(parts, part)):
        time.sleep(0.05)
    for part in range(now, n):
        parts.cluster("RQ.RESUME", parts.key(part), "OUT")


def shrink(parts, now, n):
    """Who would push to the parts that go waits until they are empty. Dead jobs stay in them."""
    for part in range(n, now):
        parts.cluster("RQ.PAUSE", parts.key(part), "IN", "REASON", f"{n} parts are enough")
    while any(parts.cluster("RQ.LEN", parts.key(part)) for part in range(n, now)):
        time.sleep(0.05)
    parts.write(n, now)
    time.sleep(SWITCH_S)
    parts.write(n, n)


def groups(parts, part):
    """The groups that have something in a part that comes before what is new."""
    after = ()
    while page := parts.cluster("RQ.GROUPS", parts.key(part), *after):
        yield from (name.decode() for name, ready, leased, retrying, *_ in page if ready or leased or retrying)
        after = ("AFTER", page[-1][0])


def policy(parts):
    """The options of the first part, as RQ.CREATE takes them."""
    info = parts.cluster("RQ.INFO", parts.key(0))
    for name, value in zip(info[::2], info[1::2]):
        if name == b"length":
            return
        yield name
        yield from value if isinstance(value, list) else [value]


def main(port, what, name, *rest):
    parts = Parts(Cluster(int(port)), name)
    if what in ("push", "once"):
        send = push if what == "push" else push_once
        for line in sys.stdin:
            word, _, payload = line.rstrip("\n").partition(" ")
            send(parts, word, payload)
    elif what == "work":
        work(parts, *rest)
    elif what == "make":
        make(parts, int(rest[0]), rest[1:])
    elif what == "resize":
        resize(parts, int(rest[0]))
    else:
        sys.exit(__doc__)


if __name__ == "__main__":
    if len(sys.argv) < 4:
        sys.exit(__doc__)
    main(*sys.argv[1:])
