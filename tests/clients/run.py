#!/usr/bin/env python3
"""Real clients on a real server: they do what `steps.txt` says, in RESP2 and RESP3, one command
at a time, in pipelines, in MULTI and in Lua, and must see what is in `golden.txt`.

    tests/clients/run.py [NAME...]   these clients only; exit code 1 if one sees anything else
    RQ_UPDATE=1 ...                  writes golden.txt

$RQ_SERVER and $RQ_MODULE choose server and module. Packages are fetched into the cache
($RQ_CACHE). Clients that can't be had are skipped, and said to be; with
RQ_REQUIRE_CLIENTS=1 that is a failure.
"""

import os
import re
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

sys.dont_write_bytecode = True
import cluster  # noqa: E402
import golden  # noqa: E402
import resend  # noqa: E402
import steps  # noqa: E402
from clients import CLIENTS, Raw  # noqa: E402
from report import Report  # noqa: E402
from server import Server, ask_servers, wait_until  # noqa: E402
from wire import rendered  # noqa: E402

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


def compare(report, server, wanted, db, kind, protocol):
    """One client: it must see what is wanted, each way."""
    client = kind.start(server.port, db, protocol)
    try:
        for way in WAYS:
            seen = session(server, db, client, protocol, way)
            for (step, right), (_, reply) in zip(wanted[protocol, way], seen, strict=True):
                if kind.view(right) != kind.view(reply):
                    raise Differs(f"{way}: {step.line}\n  golden: {kind.view(right)}\n  seen:   {kind.view(reply)}")
    finally:
        client.close()
    report.count(f"{kind.name}, RESP{protocol}")


def main(names):
    program = ask_servers("path") or sys.exit("there is no server to run on")
    report = Report()
    with tempfile.TemporaryDirectory(prefix="rq-clients-") as folder:
        server = Server(program, Path(folder) / "server", "databases 64", "appendonly no")
        try:
            report.count("every command is in steps.txt", missing_commands(server))
            wanted = references(server)
            report.count("golden replies", golden.differences(wanted, update=os.environ.get("RQ_UPDATE") == "1"))
            report.count("pipelines", list(piped_otherwise(wanted)))
            with ThreadPoolExecutor(4) as pool:
                for number, kind in enumerate(kind for kind in CLIENTS if not names or kind.name in names):
                    for protocol in kind.protocols:
                        pool.submit(report.attempt, f"{kind.name}, RESP{protocol}", compare, report, server,
                                    wanted, 2 + 2 * number + protocol % 2, kind, protocol)
                    if kind.name in resend.CLIENTS:
                        pool.submit(report.attempt, f"{kind.name} pushes again by itself", resend.test, report,
                                    server, 40 + number, kind)
                if not names:
                    pool.submit(report.attempt, "redis-py in a cluster", cluster.test, report, program,
                                Path(folder) / "cluster")
        finally:
            server.kill()
    return report.end()


if __name__ == "__main__":
    if any(name.startswith("-") for name in sys.argv[1:]):
        sys.exit(__doc__)
    sys.exit(main(sys.argv[1:]))
