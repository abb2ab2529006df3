"""Drives redis-cli or valkey-cli: `cli.py CLI PORT DB PROTOCOL`; see clients.py."""

import json
import re
import subprocess
import sys

ESCAPE = re.compile(r"\\(?:x([0-9a-f]{2})|(.))")
ERROR = re.compile(r'\berror:("(?:[^"\\]|\\.)*")')


def quoted(word):
    return '"' + "".join(f"\\x{byte:02x}" for byte in word) + '"'


def parsed(line):
    """What --quoted-json prints is nearly JSON: its backslashes are doubled, but its quotes are
    not; a byte is `\\x00`; an error is `error:"..."`."""
    line = ESCAPE.sub(lambda found: rf"\u00{found[1]}" if found[1] else {"a": r"\u0007"}.get(found[2], found[0]),
                      line.replace("\\\\", "\\"))
    return spelled(json.loads(ERROR.sub(r'{"!":\1}', line), object_pairs_hook=Pairs))


class Pairs(list):
    """A map."""


def spelled(reply):
    match reply:
        case str():
            return {"text": reply.encode("latin-1").hex()}
        case Pairs():
            (name, value), *more = reply
            if name == "!" and not more:
                return {"error": value}
            return {"map": [[spelled(name), spelled(value)] for name, value in reply]}
        case list():
            return [spelled(each) for each in reply]
        case _:
            return reply


def main(path, port, db, protocol):
    child = subprocess.Popen([path, "-p", port, "-n", db, f"-{protocol}", "--quoted-json"], text=True,
                             stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)

    def send(*commands):
        child.stdin.write("".join(" ".join(map(quoted, words)) + "\n" for words in commands))
        child.stdin.flush()
        return [parsed(child.stdout.readline()) for _ in commands]

    for line in sys.stdin:
        request = json.loads(line)
        commands = [[bytes.fromhex(word) for word in command] for command in request["commands"]]
        if request["do"] == "multi":
            replies = send([b"MULTI"], *commands, [b"EXEC"])[-1]
        else:
            replies = send(*commands)
        print(json.dumps(replies), flush=True)
    child.stdin.close()
    child.wait()


main(*sys.argv[1:])
