"""Drives redis-py or valkey-py: `redis_py.py redis|valkey PORT DB PROTOCOL`; see clients.py."""

import importlib
import json
import sys


def spelled(reply):
    match reply:
        case bytes():
            return {"text": reply.hex()}
        case str():  # a status
            return spelled(reply.encode())
        case list():
            return [spelled(each) for each in reply]
        case dict():
            return {"map": [[spelled(name), spelled(value)] for name, value in reply.items()]}
        case Exception():
            return {"error": str(reply)}
        case _:
            return reply


def main(library, port, db, protocol):
    library = importlib.import_module(library)
    kind = getattr(library, library.__name__.capitalize())
    client = kind(host="127.0.0.1", port=int(port), db=int(db), protocol=int(protocol),
                  socket_timeout=90)

    def call(words):
        try:
            return client.execute_command(*words)
        except library.ResponseError as error:
            return error

    def together(commands, transaction):
        pipeline = client.pipeline(transaction=transaction)
        for words in commands:
            pipeline.execute_command(*words)
        return pipeline.execute(raise_on_error=False)

    for line in sys.stdin:
        request = json.loads(line)
        commands = [[bytes.fromhex(word) for word in command] for command in request["commands"]]
        if request["do"] == "call":
            replies = [call(words) for words in commands]
        else:
            replies = together(commands, transaction=request["do"] == "multi")
        print(json.dumps(spelled(replies)), flush=True)


main(*sys.argv[1:])
