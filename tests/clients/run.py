#!/usr/bin/env python3
"""Real clients on a real server: they do what `steps.txt` says, in RESP2 and RESP3, one command
at a time, in pipelines, in MULTI and in Lua, and must see what is in `golden.txt`.

    tests/clients/run.py [NAME...]   these clients only; exit code 1 if one sees anything else
    RQ_UPDATE=1 ...                  writes golden.txt

$RQ_SERVER and $RQ_MODULE choose server and module. Packages are fetched into the cache
($RQ_CACHE). Clients that can't be had are skipped, and named in the last line; with
RQ_REQUIRE_CLIENTS=1 that is a failure.
"""

import os
import re
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import cluster
import golden
import steps
from clients import CLIENTS, Raw, Unavailable
from server import ROOT, Server, ask_servers, wait_until
from wire import rendered

BLOCKED = re.compile(rb"flags=[^ ]*b")


class Differs(Exception):
    """A client saw another reply."""


def in_lua(words, protocol):
    script = f"redis.setresp({protocol}) return redis.pcall(unpack(ARGV))"
    return ["EVAL", script, "0", *words]


def ask(client, way, protocol, words):
    """The reply of one command, sent one way."""
    match way:
        case "alone":
            return client.call(words)
        case "pipeline":
            before, reply, after = client.pipe([["ECHO", "before"], words, ["ECHO", "after"]])
            if (before, after) != (b"before", b"after"):
                raise Differs(f"in a pipeline, replies came to the wrong commands: {before}, {after}")
            return reply
        case "MULTI":
            replies = client.multi([words])
            return replies[0] if isinstance(replies, list) else replies
        case "Lua":
            return client.call(in_lua(words, protocol))


def session(server, db, client, protocol, way):
    """All steps, one way. Yields each tested step with its masked reply."""
    control = server.connect(db=db)
    control.ok("FLUSHDB")
    known, mask = {"later": int(time.time() * 1000) + 3_600_000}, steps.Mask()
    for step in steps.read():
        if isinstance(step, str) or (step.is_refused and way == "MULTI"):
            continue
        if step.while_blocked and way != "alone":
            continue
        words = step.filled(known)
        if not step.is_tested:
            control.ok(*words)
            continue
        if step.while_blocked:
            reply = client.blocked(words, lambda: release(control, db, step.while_blocked, known))
        else:
            reply = ask(client, way, protocol, words)
        if step.name:
            known[step.name] = steps.plain(reply)
        yield step, mask(step, steps.sorted_maps(reply) if way == "Lua" else reply)
    control.close()


def release(control, db, step, known):
    """Once the client is blocked: what ends that."""
    wait_until("the client blocks", lambda: any(
        b" db=%d " % db in line and BLOCKED.search(line) for line in control.ok("CLIENT", "LIST").splitlines()))
    control.ok(*step.filled(known))


WAYS = ("alone", "pipeline", "MULTI", "Lua")


def references(server):
    """What the wire says: (protocol, way) -> masked replies, in order."""
    found = {}
    for protocol in (2, 3):
        for way in WAYS:
            client = Raw(server.connect(db=1, protocol=protocol))
            found[protocol, way] = list(session(server, 1, client, protocol, way))
            client.close()
    return found


def piped_otherwise(wanted):
    """Where a pipeline sees another reply than a lone command."""
    for protocol in (2, 3):
        # Those that block come last, and are not in the pipelines.
        for (step, alone), (_, piped) in zip(wanted[protocol, "alone"], wanted[protocol, "pipeline"]):
            if rendered(alone) != rendered(piped):
                yield f"RESP{protocol}, {step.line}: {rendered(alone)} alone, {rendered(piped)} in a pipeline"


def missing_commands(server):
    control = server.connect()
    names = {name.decode().upper() for name in control.ok("COMMAND", "LIST", "FILTERBY", "MODULE", "rq")}
    control.close()
    tested = {step.verb for step in steps.read() if not isinstance(step, str)}
    return sorted(names - tested)


def compare(server, wanted, db, kind, protocol):
    """None, or what a client saw otherwise."""
    client = kind.start(server.port, db, protocol)
    try:
        for way in WAYS:
            seen = session(server, db, client, protocol, way)
            for (step, right), (_, reply) in zip(wanted[protocol, way], seen, strict=True):
                if kind.view(right) != kind.view(reply):
                    raise Differs(f"{way}: {step.line}\n  golden: {kind.view(right)}\n  seen:   {kind.view(reply)}")
    finally:
        client.close()


def main(names):
    program = ask_servers("path") or sys.exit("there is no server to run on")
    passed, failed, skipped = 0, [], []

    def count(label, errors):
        nonlocal passed
        passed += not errors
        failed.extend([label] if errors else [])
        print(f"{'FAILED' if errors else 'ok':8}{label}", *errors, sep="\n  ", flush=True)

    def attempt(label, run, *args):
        try:
            run(*args)
            count(label, [])
        except Unavailable as error:
            skipped.append(f"{label} ({error})")
        except Exception as error:  # whatever a client does, the others shall have their turn
            count(label, [f"{type(error).__name__}: {error}"])

    with tempfile.TemporaryDirectory(prefix="rq-clients-") as folder:
        server = Server(program, Path(folder) / "server", "databases 64", "appendonly no")
        try:
            count("every command is in steps.txt", missing_commands(server))
            wanted = references(server)
            count("golden replies", golden.differences(wanted, update=os.environ.get("RQ_UPDATE") == "1"))
            count("pipelines", list(piped_otherwise(wanted)))
            with ThreadPoolExecutor(4) as pool:
                for number, kind in enumerate(kind for kind in CLIENTS if not names or kind.name in names):
                    for protocol in kind.protocols:
                        pool.submit(attempt, f"{kind.name}, RESP{protocol}", compare, server, wanted,
                                    2 + 2 * number + protocol % 2, kind, protocol)
                if not names:
                    pool.submit(attempt, "redis-py in a cluster", cluster.test, program, Path(folder) / "cluster")
        finally:
            server.kill()
    if skipped and os.environ.get("RQ_REQUIRE_CLIENTS") == "1":
        failed.extend(skipped)
    note = "; skipped: " + ", ".join(sorted(skipped)) if skipped else ""
    print(f"{passed} passed, {len(failed)} failed{note}")
    return 1 if failed else 0


if __name__ == "__main__":
    if any(name.startswith("-") for name in sys.argv[1:]):
        sys.exit(__doc__)
    sys.exit(main(sys.argv[1:]))
