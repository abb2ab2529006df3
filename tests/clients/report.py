"""Counts what passed, failed and was skipped, and says so."""

import os
import threading

from packages import Unavailable


class Report:
    def __init__(self):
        self.passed, self.failed, self.skipped = 0, 0, []
        self.lock = threading.Lock()

    def count(self, label, errors=()):
        with self.lock:
            self.passed, self.failed = self.passed + (not errors), self.failed + bool(errors)
            print(f"{'FAILED' if errors else 'ok':8}{label}", *errors, sep="\n  ", flush=True)

    def skip(self, label, why):
        """What can't be had is left out, unless RQ_REQUIRE_CLIENTS=1."""
        if os.environ.get("RQ_REQUIRE_CLIENTS") == "1":
            self.count(label, [why])
        else:
            self.skipped.append(f"{label} ({why})")

    def attempt(self, label, run, *args):
        """Runs it; what is raised is counted as a failure, and so the others have their turn."""
        try:
            run(*args)
        except Unavailable as error:
            self.skip(label, error)
        except Exception as error:
            self.count(label, [f"{type(error).__name__}: {error}"])

    def end(self):
        """The last line; the exit code."""
        for each in sorted(self.skipped):
            print(f"skipped: {each}")
        print(f"{self.passed} passed, {self.failed} failed, {len(self.skipped)} skipped")
        return 1 if self.failed else 0
