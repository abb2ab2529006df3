"""Servers with the module, on loopback, in a temporary folder."""

import os
import socket
import subprocess
import time
from pathlib import Path

import wire

ROOT = Path(__file__).resolve().parent.parent.parent


def wait_until(what, holds):
    """Waits for a condition and returns what it says; fails with the description."""
    deadline = time.monotonic() + wire.PATIENCE_S
    while not (said := holds()):
        if time.monotonic() > deadline:
            raise TimeoutError(f"waited {wire.PATIENCE_S} s for this: {what}")
        time.sleep(0.005)
    return said


def ask_servers(*words):
    """What scripts/servers says, None if it can't."""
    done = subprocess.run([ROOT / "scripts/servers", *words], stdout=subprocess.PIPE, text=True)
    return done.stdout.strip() if done.returncode == 0 else None


def module():
    """The module: $RQ_MODULE, else the release build."""
    path = Path(os.environ.get("RQ_MODULE") or release("librq.so"))
    if not path.exists():
        raise SystemExit(f"no module at {path}: make build, or set RQ_MODULE")
    return path.resolve()


def release(name):
    """A file of the release build."""
    return (ROOT / os.environ.get("CARGO_TARGET_DIR", "target") / "release" / name).resolve()


def free_port():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return free.getsockname()[1]


class Server:
    """One server; `settings` are lines of its configuration."""

    def __init__(self, program, folder, *settings):
        self.program, self.folder, self.settings = program, Path(folder), settings
        self.folder.mkdir(parents=True)
        self.child = None
        for _ in range(5):
            self.port = free_port()
            if self.start():
                return
        raise SystemExit(f"{program} does not start:\n{(self.folder / 'log').read_text()[-1500:]}")

    def start(self):
        """Starts it, at its port. False: it ended, the port is somebody else's by now."""
        (self.folder / "server.conf").write_text("\n".join([
            f"port {self.port}", "bind 127.0.0.1", f'dir "{self.folder}"', 'save ""', "appendonly yes",
            "repl-diskless-sync-delay 0", f'loadmodule "{module()}"', *self.settings, ""]))
        with open(self.folder / "log", "a") as log:
            self.child = subprocess.Popen([self.program, self.folder / "server.conf"], stdin=subprocess.DEVNULL,
                                          stdout=log, stderr=log, start_new_session=True)
        return wait_until("the server", self.is_up) == "up"

    def is_up(self):
        if self.child.poll() is not None:
            return "ended"
        try:
            with socket.create_connection(("127.0.0.1", self.port), timeout=wire.PATIENCE_S) as connection:
                connection.sendall(b"INFO\r\nQUIT\r\n")
                said = connection.makefile("rb").read()
        except OSError:
            return None
        return "up" if b"process_id:%d\r" % self.child.pid in said and b"\nloading:0\r" in said else None

    def connect(self, **options):
        return wire.Connection(self.port, **options)

    def kill(self):
        if self.child.poll() is None:
            self.child.kill()
        self.child.wait()
