"""`examples/redis_py_worker.py` with the tests' work: `PORT QUEUE NAME`; see run.py."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent.parent / "examples"))
from redis_py_worker import Worker  # noqa: E402
from work import work  # noqa: E402

port, queue, name = sys.argv[1:]
Worker(f"redis://127.0.0.1:{port}", queue, name).run(work)
