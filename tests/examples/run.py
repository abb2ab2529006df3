#!/usr/bin/env python3
"""The workers of `examples` on a real server, with the tests' work: they are killed, stopped, cut
off, their server restarts and fails over, and no job gets lost or is done twice.

    tests/examples/run.py [NAME...]   these workers only; exit code 1 if one fails

$RQ_SERVER and $RQ_MODULE choose server and module; packages and skips are those of
tests/clients/run.py.
"""

import sys
import tempfile
import traceback
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.dont_write_bytecode = True
sys.path.insert(0, str(HERE.parent / "clients"))
import packages  # noqa: E402
import scenes  # noqa: E402
from report import Report  # noqa: E402
from server import ask_servers, release  # noqa: E402


def python(name):
    return [sys.executable, "-B", HERE / name], packages.python()


def bare():
    return [sys.executable, "-B", HERE / "bare.py"], None


def node():
    return ["node", HERE / "ioredis.js"], packages.node()


def rust():
    program = release("examples/redis_rs_test_worker")
    if not program.exists():
        raise packages.Unavailable("not built: cargo build --release --examples")
    return [program], None


WORKERS = {"worker.py": bare, "redis_py_worker.py": lambda: python("redis_py.py"),
           "ioredis_worker.js": node, "redis_rs_worker.rs": rust}


def play(report, name, how, program, folder):
    """All scenes with one worker, one after the other."""
    try:
        command, env = how()
    except packages.Unavailable as error:
        return report.skip(name, error)
    stage = scenes.Stage(program, folder, command, env)
    try:
        for scene in scenes.SCENES:
            label = f"{name}: {scene.__name__.replace('_', ' ')}"
            try:
                scene(stage)
                report.count(label)
            except Exception as error:  # the other scenes shall be seen, too
                report.count(label, traceback.format_exc().splitlines()[-3:-1] + [str(error)])
    finally:
        stage.close()
        if report.failed:
            print(f"{name} said:\n{(folder / 'workers').read_text()[-2000:]}")


def main(names):
    program = ask_servers("path") or sys.exit("there is no server to run on")
    report = Report()
    with tempfile.TemporaryDirectory(prefix="rq-examples-") as folder, ThreadPoolExecutor(4) as pool:
        for name, how in WORKERS.items():
            if not names or name in names:
                pool.submit(report.attempt, name, play, report, name, how, program, Path(folder) / name)
        pool.shutdown()
    return report.end()


if __name__ == "__main__":
    if any(name.startswith("-") for name in sys.argv[1:]):
        sys.exit(__doc__)
    sys.exit(main(sys.argv[1:]))
