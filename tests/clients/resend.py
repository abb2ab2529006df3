"""Some clients send a command again by themselves when its reply got lost: without DEDUP a job is
there twice then, and nobody is told."""

from proxy import Proxy

CLIENTS = ("redis-py", "ioredis", "iovalkey")


def test(report, server, db, kind):
    proxy = Proxy(server.port, "RQ.PUSH")
    control, client = server.connect(db=db), kind.start(proxy.port, db, 2)
    try:
        client.call(["ECHO", "connected"])
        proxy.lose = "reply"
        client.call(["RQ.PUSH", "careless", "job"])
        check("jobs", control.ok("RQ.LEN", "careless"), 2)
        proxy.lose = "reply"
        reply = client.call(["RQ.PUSH", "careful", "job", "DEDUP", "its-own-key", "WINDOW", "600000"])
        check("code", reply[1], 0)
        check("jobs", control.ok("RQ.LEN", "careful"), 1)
        check("lost replies", proxy.lost, 2)
    finally:
        client.close()
        proxy.close()
        control.close()
    report.count(f"{kind.name} pushes again by itself")


def check(what, seen, wanted):
    if seen != wanted:
        raise ValueError(f"{what}: {seen}, not {wanted}")
