"""What every worker of `examples` must live through. Each scene has a queue of its own."""

import signal
import subprocess
import threading
from pathlib import Path

from proxy import Proxy
from server import Server, wait_until
from wire import Null

# Leases that nobody keeps end soon in the one, and in the other only after the test.
SHORT, LONG = 1000, 3_600_000


class Worker:
    """A worker's process, and what it said that it took."""

    def __init__(self, command, env, port, queue, name, log):
        self.took = []
        self.child = subprocess.Popen([*map(str, command), str(port), queue, name], env=env, text=True,
                                      stdout=subprocess.PIPE, stderr=log, stdin=subprocess.DEVNULL)
        threading.Thread(target=self.listen, daemon=True).start()

    def listen(self):
        for line in self.child.stdout:
            if line.startswith("took "):
                self.took.append(tuple(line.split()[1:3]))

    def wait_for(self, job_id, deliveries):
        def took():
            if self.child.poll() is not None:
                raise ChildProcessError(f"the worker ended with {self.child.returncode}")
            return (job_id, str(deliveries)) in self.took

        wait_until(f"it takes {job_id}, delivery {deliveries}", took)

    def check_took(self, *jobs):
        """These, in this order, and no other. What it says comes later than its ACK."""
        wait_until(f"it takes {len(jobs)} jobs", lambda: len(self.took) >= len(jobs))
        same("taken", self.took, list(jobs))

    def end(self, by=signal.SIGKILL):
        self.child.send_signal(by)
        return self.child.wait(60)


class Stage:
    """A server, what it says, and the workers on it."""

    def __init__(self, program, folder, command, env):
        self.program, self.folder, self.command, self.env = program, Path(folder), command, env
        self.folder.mkdir()
        self.log = open(self.folder / "workers", "w")
        self.server = Server(program, self.folder / "server", "rq.expiry-grace 0")
        self.servers, self.workers, self.proxies = [self.server], [], []
        self.control = self.server.connect()

    def close(self):
        for worker in self.workers:
            worker.child.kill()
            worker.child.wait()
        for proxy in self.proxies:
            proxy.close()
        for server in self.servers:
            server.kill()
        self.log.close()

    def hire(self, queue, port=None, name="worker"):
        worker = Worker(self.command, self.env, port or self.server.port, queue, name, self.log)
        self.workers.append(worker)
        return worker

    def proxy(self):
        self.proxies.append(Proxy(self.server.port, "RQ.ACK"))
        return self.proxies[-1]

    def create(self, queue, lease):
        self.control.ok("RQ.CREATE", queue, "LEASE", lease, "BACKOFF", LONG, LONG, "JITTER", "none")

    def push(self, queue, payload):
        return self.control.ok("RQ.PUSH", queue, payload).decode()

    def job(self, queue, job_id):
        """RQ.GET; None if the job is gone."""
        reply = self.control.ok("RQ.GET", queue, job_id)
        return None if isinstance(reply, Null) else dict(zip(reply[::2], reply[1::2]))

    def total(self, queue, name):
        reply = self.control.ok("RQ.INFO", queue)
        return dict(zip(reply[::2], reply[1::2]))[name]

    def wait_acked(self, queue, number):
        wait_until(f"{number} are acknowledged", lambda: self.total(queue, b"acked-total") == number)

    def flag(self, name):
        """A file for which a job can wait."""
        return self.folder / f"go-{name}"


def same(what, seen, wanted):
    if seen != wanted:
        raise ValueError(f"{what}: {seen}, not {wanted}")


def jobs_are_done(stage):
    stage.create("done", LONG)
    ids = [stage.push("done", f"job {n}") for n in range(30)]
    worker = stage.hire("done")
    stage.wait_acked("done", 30)
    worker.check_took(*[(job_id, "1") for job_id in ids])
    # It waits for more; and it ends when it is told to, while it waits.
    stage.push("done", "more")
    stage.wait_acked("done", 31)
    same("its end", worker.end(signal.SIGTERM), 0)


def a_failure_is_told(stage):
    stage.create("failing", LONG)
    failed = stage.push("failing", "fail no such address: \xff")
    worker = stage.hire("failing")
    wait_until("it failed", lambda: stage.job("failing", failed)[b"failures"] == 1)
    job = stage.job("failing", failed)
    same("state", job[b"state"], b"delayed")
    if "no such address: \xff".encode() not in job[b"error"]:
        raise ValueError(f"the error of RQ.GET: {job[b'error']}")
    stage.push("failing", "job")
    stage.wait_acked("failing", 1)
    worker.end()


def a_heartbeat_keeps_the_lease(stage):
    stage.create("long", 3 * SHORT)
    long = stage.push("long", f"wait {stage.flag('long')}")
    worker = stage.hire("long")
    worker.wait_for(long, 1)

    def deadline():
        found = stage.job("long", long)[b"deadline"]
        return found if isinstance(found, int) else 0  # on a slow machine it may have run out meanwhile

    first = deadline()
    wait_until("it is extended twice", lambda: deadline() >= first + 1.5 * SHORT)
    stage.flag("long").touch()
    stage.wait_acked("long", 1)
    same("deliveries", stage.total("long", b"delivered-total"), 1)
    worker.end()


def a_cancelled_job_is_given_up(stage):
    stage.create("cancelled", 3 * SHORT)
    job_id = stage.push("cancelled", f"wait {stage.flag('never')}")
    worker = stage.hire("cancelled")
    worker.wait_for(job_id, 1)
    same("removed", stage.control.ok("RQ.DEL", "cancelled", job_id), 1)
    # The heartbeat says so, and the worker is free for the next one.
    stage.push("cancelled", "job")
    stage.wait_acked("cancelled", 1)
    worker.end()


def killed_in_the_middle(stage):
    stage.create("killed", SHORT)
    job = stage.push("killed", f"wait {stage.flag('killed')}")
    victim = stage.hire("killed")
    victim.wait_for(job, 1)
    victim.end()
    stage.flag("killed").touch()
    heir = stage.hire("killed", name="heir")
    stage.wait_acked("killed", 1)
    heir.check_took((job, "2"))
    same("it expired", stage.total("killed", b"expired-total") >= 1, True)
    heir.end()


def stopped_in_the_middle(stage):
    stage.create("stopped", LONG)
    job_id = stage.push("stopped", f"wait {stage.flag('stopped')}")
    worker = stage.hire("stopped")
    worker.wait_for(job_id, 1)
    same("its end", worker.end(signal.SIGTERM), 0)
    job = stage.job("stopped", job_id)
    same("the job", (job[b"state"], job[b"deliveries"], job[b"releases"]), (b"ready", 0, 1))
    stage.flag("stopped").touch()
    heir = stage.hire("stopped", name="heir")
    stage.wait_acked("stopped", 1)
    heir.check_took((job_id, "1"))
    heir.end()


def an_ack_is_sent_until_it_is_answered(stage):
    for lost, queue in [("reply", "reply-lost"), ("request", "request-lost")]:
        stage.create(queue, LONG)
        proxy = stage.proxy()
        worker = stage.hire(queue, port=proxy.port)
        before = stage.push(queue, "before")
        stage.wait_acked(queue, 1)
        proxy.lose = lost
        job_id = stage.push(queue, "job")
        stage.wait_acked(queue, 2)
        # Of the lost reply it cannot know anything, so it asks again.
        wait_until("it sends the ACK again", lambda: proxy.seen >= 3)
        after = stage.push(queue, "after")
        stage.wait_acked(queue, 3)
        same("lost", proxy.lost, 1)
        worker.check_took((before, "1"), (job_id, "1"), (after, "1"))
        same("deliveries", stage.total(queue, b"delivered-total"), 3)
        worker.end()


def the_server_restarts(stage):
    stage.create("restart", LONG)
    held = stage.push("restart", f"wait {stage.flag('restart')}")
    busy, idle = stage.hire("restart"), None
    busy.wait_for(held, 1)
    idle = stage.hire("restart", name="idle")
    wait_until("the other one waits", lambda: stage.total("restart", b"blocked-clients") == 1)
    stage.server.kill()
    wait_until("the server", stage.server.start)
    stage.control = stage.server.connect()
    more = stage.push("restart", "job")
    idle.wait_for(more, 1)
    stage.flag("restart").touch()
    stage.wait_acked("restart", 2)
    same("deliveries", stage.total("restart", b"delivered-total"), 2)
    for worker in (busy, idle):
        same("its end", worker.end(signal.SIGTERM), 0)


def a_replica_takes_over(stage):
    stage.create("failover", LONG)
    replica = Server(stage.program, stage.folder / "replica", f"replicaof 127.0.0.1 {stage.server.port}")
    stage.servers.append(replica)
    other = replica.connect()
    proxy = stage.proxy()
    held = stage.push("failover", f"wait {stage.flag('failover')}")
    busy = stage.hire("failover", port=proxy.port)
    busy.wait_for(held, 1)
    idle = stage.hire("failover", port=proxy.port, name="idle")
    wait_until("the other one waits", lambda: stage.total("failover", b"blocked-clients") == 1)
    wait_until("the replica has it all", lambda: b"master_link_status:up" in other.ok("INFO", "replication")
               and stage.control.ok("WAIT", 1, 1) == 1 and (b"leased" in other.ok("RQ.GET", "failover", held)))
    other.ok("REPLICAOF", "NO", "ONE")
    stage.control.ok("REPLICAOF", "127.0.0.1", replica.port)
    # Their connections still lead to the old primary, which refuses: they must come anew.
    proxy.target, stage.control = replica.port, other
    stage.flag("failover").touch()
    stage.wait_acked("failover", 1)
    more = stage.push("failover", "job")
    stage.wait_acked("failover", 2)
    wait_until("both are told", lambda: len(busy.took + idle.took) >= 2)
    same("taken", sorted(busy.took + idle.took), sorted([(held, "1"), (more, "1")]))
    for worker in (busy, idle):
        same("its end", worker.end(signal.SIGTERM), 0)


SCENES = [jobs_are_done, a_failure_is_told, a_heartbeat_keeps_the_lease, a_cancelled_job_is_given_up,
          killed_in_the_middle, stopped_in_the_middle, an_ack_is_sent_until_it_is_answered,
          the_server_restarts, a_replica_takes_over]
