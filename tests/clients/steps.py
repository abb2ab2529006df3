"""The steps of `steps.txt`, and what varies in their replies."""

import functools
import re
from pathlib import Path

from wire import Error, Map, Null, Status

HERE = Path(__file__).resolve().parent
WORD = re.compile(rb'"((?:[^"\\]|\\.)*)"|(\S+)')
ESCAPE = re.compile(rb"\\x([0-9a-fA-F]{2})|\\(.)")


class Step:
    """One command. `while_blocked`: what another connection sends meanwhile."""

    def __init__(self, line):
        self.line, self.while_blocked = line, None
        # Refused by the server itself, each in its own words: that it is an error is kept.
        self.is_refused = line.startswith("! ")
        name, equals, rest = line.removeprefix("! ").partition(" = ")
        self.name, text = (name, rest) if equals and name.isidentifier() else (None, line.removeprefix("! "))
        self.words = [ESCAPE.sub(unescaped, quoted) if quoted or not plain else plain
                      for quoted, plain in WORD.findall(text.encode())]
        self.verb = self.words[0].decode().upper()
        self.is_tested = self.verb.startswith("RQ.")  # all else only prepares something

    def filled(self, known):
        """The words, with `$name[0][1]` replaced by what that step replied."""
        return [filled(word, known) if word.startswith(b"$") else word for word in self.words]


def unescaped(found):
    return bytes([int(found[1], 16)]) if found[1] else found[2]


def filled(word, known):
    name, *path = re.findall(r"\w+", word.decode())
    value = known[name]
    for index in path:
        value = value[int(index)]
    return value if isinstance(value, bytes) else str(value).encode()


@functools.cache
def read():
    """Headings (texts) and steps, in order."""
    found = []
    for line in (HERE / "steps.txt").read_text().splitlines():
        if line.startswith("~ "):
            found[-1].while_blocked = Step(line[2:])
        elif line.startswith("## "):
            found.append(line)
        elif line.strip() and not line.startswith("#"):
            found.append(Step(line))
    return found


def sorted_maps(reply):
    """In Lua a map is a table, which has no order."""
    if isinstance(reply, Map):
        return Map(sorted(((name, sorted_maps(value)) for name, value in reply.pairs), key=lambda pair: pair[0]))
    return [sorted_maps(each) for each in reply] if isinstance(reply, list) else reply


# Ages: by the name of the field, or by the place in what these commands list.
AGE = re.compile(rb"oldest-\w+-ms|(wait|run)-ms-\w+")
AGE_PLACE = {"RQ.GROUPS": 6, "RQ.CONSUMERS": 3, "RQ.QUEUES": 4}
ID, TOKEN, TIME = re.compile(rb"\b\d{13}-\d+\b"), re.compile(rb"\b\d{16}\b"), re.compile(rb"\b\d{13}\b")


class Mask:
    """Replaces ids, tokens and times by their shape. The n-th id that is seen is `<id n>`, so one
    that comes again is known again. (Ids are those of a queue: two may have the same one.)"""

    def __init__(self):
        self.seen = {}

    def number(self, kind, value):
        of_kind = self.seen.setdefault(kind, {})
        return b"<%b %d>" % (kind, of_kind.setdefault(bytes(value), len(of_kind) + 1))

    def __call__(self, step, reply):
        reply = self.mask(reply)
        if step.is_refused and isinstance(reply, Error):
            reply = Error("ERR")  # some clients take even that away
        place = AGE_PLACE.get(step.verb)
        if place and isinstance(reply, list):
            for row in reply:
                row[place:] = map(age, row[place:])  # in Lua, a null may have cut it off
        if step.verb == "RQ.DOCTOR" and isinstance(reply, list):
            for row in reply:
                row[2:] = [b"<text>" if text else b"" for text in row[2:]]  # with figures of the server
        return reply

    def mask(self, reply):
        if isinstance(reply, Error):
            return Error(self.text(reply.text.encode()).decode())
        if isinstance(reply, Status):
            return reply
        if isinstance(reply, bytes):
            return self.text(reply)
        if isinstance(reply, Map):
            return Map([(name, self.field(name, value)) for name, value in reply.pairs])
        if isinstance(reply, list):
            # In RESP2 a map is a flat array: a name may come before any element.
            return [self.field(before, each) for before, each in zip([None, *reply], reply)]
        if type(reply) is int:
            if reply >= 10**15:
                return Masked(self.number(b"token", b"%d" % reply))
            return Masked(b"<time>") if reply >= 10**12 else reply
        return reply

    def field(self, name, value):
        return age(value) if isinstance(name, bytes) and AGE.fullmatch(name) else self.mask(value)

    def text(self, text):
        text = ID.sub(lambda found: self.number(b"id", found[0]), text)
        text = TOKEN.sub(lambda found: self.number(b"token", found[0]), text)
        text = re.sub(rb'("(?:oldest-\w+-ms|(?:wait|run)-ms-\w+)": ?)\d+', rb"\1<ms>", text)
        return TIME.sub(b"<time>", text)


class Masked(str):
    """An integer that was masked: not a string to a client."""

    def __new__(cls, text):
        return super().__new__(cls, text.decode())


def age(value):
    return Masked(b"<ms>") if type(value) is int else value


def plain(reply, shows_err=True):
    """What a client makes of a reply that does not tell a status from a string, nor one null
    from another."""
    def inner(each):
        return plain(each, shows_err)

    if isinstance(reply, Null):
        return None
    if isinstance(reply, Error):
        return ("error", reply.text if shows_err else reply.text.removeprefix("ERR").strip())
    if isinstance(reply, Map):
        return ("map", [(inner(name), inner(value)) for name, value in reply.pairs])
    if isinstance(reply, list):
        return [inner(each) for each in reply]
    return bytes(reply) if isinstance(reply, bytes) else reply
