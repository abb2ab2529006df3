"""The tests' work, for the workers in Python: what to do is in the payload."""

import time
from pathlib import Path


def work(job):
    payload = job.payload.decode()
    print(f"took {job.id} {job.deliveries} {payload}", flush=True)
    verb, _, rest = payload.partition(" ")
    if verb == "fail":
        raise ValueError(rest)
    while verb == "wait" and not Path(rest).exists() and not job.lost:
        time.sleep(0.005)
