"""Brings the clients' packages, as pinned in `drivers`, into the cache: never into the checkout."""

import fcntl
import hashlib
import os
import platform
import shutil
import subprocess
import sys
from pathlib import Path

from server import ask_servers

DRIVERS = Path(__file__).resolve().parent / "drivers"
CACHE = Path(os.environ.get("RQ_CACHE") or
             Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "rq").absolute()


class Unavailable(Exception):
    """A client can't be had, and why."""


def run(*command, cwd=None):
    done = subprocess.run([str(word) for word in command], cwd=cwd, stdin=subprocess.DEVNULL,
                          stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    if done.returncode != 0:
        lines = [line for line in done.stderr.splitlines() if "rror" in line]
        raise Unavailable(f"{Path(command[0]).name}: {lines[0] if lines else 'failed'}")


def installed(kind, files, what_for, fill):
    """A folder of the cache that `fill` has filled once for these files and this interpreter."""
    key = hashlib.sha256("".join([what_for, *((DRIVERS / name).read_text() for name in files)]).encode())
    final = CACHE / f"clients-{kind}-{key.hexdigest()[:16]}"
    if final.exists():
        return final
    CACHE.mkdir(parents=True, exist_ok=True)
    with open(CACHE / f"clients-{kind}.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # another caller may be at it
        if not final.exists():
            folder = final.with_suffix(".tmp")
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir()
            for name in files:
                shutil.copy(DRIVERS / name, folder)
            fill(folder)
            folder.rename(final)
    return final


def python():
    """The environment in which Python finds the clients."""
    folder = installed("python", ["requirements.txt"], f"{sys.version} {platform.machine()}", lambda folder: run(
        sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--root-user-action",
        "ignore", "--no-deps", "--only-binary", ":all:", "--requirement", folder / "requirements.txt",
        "--target", folder / "packages"))
    return {**os.environ, "PYTHONPATH": str(folder / "packages")}


def node():
    """The environment in which Node finds the clients."""
    if not (shutil.which("node") and shutil.which("npm")):
        raise Unavailable("no node and npm")
    folder = installed("node", ["package.json", "package-lock.json"], "", lambda folder: run(
        "npm", "ci", "--ignore-scripts", "--omit=optional", "--no-audit", "--no-fund", "--fetch-retries=1",
        cwd=folder))
    return {**os.environ, "NODE_PATH": str(folder / "node_modules")}


def cli(kind):
    """The path of a redis-cli or a valkey-cli."""
    path = shutil.which(f"{kind}-cli")
    for name in {"redis": ["redis-7.0", "redis-8.6", "redis-8.0"], "valkey": ["valkey-8.1", "valkey-8.0"]}[kind]:
        if path is None and (server := ask_servers("path", name)):
            found = Path(server).with_name(f"{kind}-cli")
            path = found if found.exists() else None
    if path is None:
        raise Unavailable(f"no {kind}-cli")
    return path
