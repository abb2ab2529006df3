#!/usr/bin/env python3
"""A worker for RQ with redis-py, to copy from. Put your own work into `handler`; the rest stays.

    pip install redis
    examples/redis_py_worker.py redis://127.0.0.1:6379 QUEUE NAME

It blocks for a job, keeps its lease by a heartbeat, and tells the reason if it fails. SIGTERM: it
gives back what it holds and ends. A server that restarts or fails over is waited for.
"""

import signal
import sys
import threading
import time

import redis

BLOCK_MS = 2_000       # how long RQ.LEASE waits for a job; well below the socket's timeout
SOCKET_TIMEOUT_S = 10
# These errors pass by themselves (a restart, a failover): connect anew and try again.
PASSING = ("LOADING", "READONLY", "MASTERDOWN", "CLUSTERDOWN", "TRYAGAIN", "BUSY", "UNBLOCKED")


class Stop(BaseException):
    """SIGTERM came in the middle of a job."""


class Job:
    def __init__(self, job_id, token, deliveries, payload, lease_ms, *_):
        self.id, self.token, self.deliveries = job_id.decode(), token, deliveries
        self.payload, self.lease_ms = payload, lease_ms
        self.lost = False  # somebody else has it by now, or it was cancelled: stop


class Worker:
    def __init__(self, url, queue, name):
        self.redis = redis.Redis.from_url(url, socket_timeout=SOCKET_TIMEOUT_S)
        self.queue, self.name = queue, name
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
        RELEASE with the same token do nothing the second time, and 0 and -1 are answers, too: the
        job is no longer this worker's.
        """
        while True:
            try:
                return self.redis.execute_command(*words)
            except (redis.ConnectionError, redis.TimeoutError, redis.ResponseError) as error:
                code = getattr(error, "status_code", None) or str(error).split(" ")[0]
                if isinstance(error, redis.ResponseError) and code not in PASSING:
                    raise
                if self.stopping:
                    sys.exit(f"stops without the server ({error}): its lease will end by itself")
                print(f"trying again: {error}", file=sys.stderr)
                self.redis.connection_pool.disconnect()  # they may lead to what was the primary
                time.sleep(1)

    def run(self, handler):
        while not self.stopping:
            for leased in self.call("RQ.LEASE", self.queue, self.name, "BLOCK", BLOCK_MS) or []:
                job, over = Job(*leased), threading.Event()
                threading.Thread(target=self.beat, args=(job, over), daemon=True).start()
                verb, *rest = self.work(handler, job)
                over.set()
                self.call(verb, self.queue, job.id, job.token, *rest)

    def work(self, handler, job):
        """Does the work; returns how to settle the job."""
        try:
            settle = ["RQ.ACK"]
            try:
                self.interruptible = True
                if self.stopping:
                    raise Stop
                handler(job)
            except Exception as error:
                settle = ["RQ.NACK", "ERROR", f"{type(error).__name__}: {error}"]
            self.interruptible = False
            return settle
        except Stop:
            return ["RQ.RELEASE"]  # this delivery does not count

    def beat(self, job, over):
        """The heartbeat, from a thread; the client gives it a connection of its own."""
        while not over.wait(job.lease_ms / 3 / 1000):
            try:
                [code] = self.redis.execute_command("RQ.EXTEND", self.queue, job.id, job.token)
                if code != 1:
                    job.lost = True
                    return
            except redis.RedisError:
                pass  # the lease has not ended yet: the next beat may get through


def handler(job):
    """Your work. An exception: RQ.NACK with its text. Look at `job.lost` in long work."""
    print(f"{job.id}, delivery {job.deliveries}: {job.payload}", flush=True)


if __name__ == "__main__":
    if len(sys.argv) != 4:
        sys.exit(__doc__)
    Worker(*sys.argv[1:]).run(handler)
