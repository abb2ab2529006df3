"""golden.txt: for each step what the wire said, each way. Ways that saw the same share a line."""

import difflib

import steps
from wire import rendered

FILE = steps.HERE / "golden.txt"
HEAD = """# The replies to steps.txt on the wire, with ids, tokens and times masked by their shape.
# Written by RQ_UPDATE=1 tests/clients/run.py; the same on every server.
"""
# A pipeline sees what a lone command sees: that is checked, not written down.
WAYS = {(2, "alone"): "2", (3, "alone"): "3", (2, "MULTI"): "MULTI 2", (3, "MULTI"): "MULTI 3",
        (2, "Lua"): "Lua 2", (3, "Lua"): "Lua 3"}


def written(wanted):
    """The text of the file."""
    seen = {}  # step -> reply -> the ways
    for key, name in WAYS.items():
        for step, reply in wanted[key]:
            seen.setdefault(step, {}).setdefault(rendered(reply), []).append(name)
    lines = [HEAD]
    for step in steps.read():
        if isinstance(step, str):
            lines.append(f"\n{step}\n")
        elif step.is_tested:
            lines.append(f"\n{step.line}\n")
            if step.while_blocked:
                lines.append(f"~ {step.while_blocked.line}\n")
            lines.extend(f"    {'' if len(seen[step]) == 1 else ', '.join(ways) + ': '}{reply}\n"
                         for reply, ways in seen[step].items())
    return "".join(lines)


def differences(wanted, update):
    """What differs from the file, as lines of a diff."""
    text = written(wanted)
    if update:
        FILE.write_text(text)
    there = FILE.read_text() if FILE.exists() else ""
    return [line.rstrip("\n") for line in difflib.unified_diff(
        there.splitlines(), text.splitlines(), "golden.txt", "this server", lineterm="", n=2)]
