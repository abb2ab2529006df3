"""Drives valkey-glide: `valkey_glide.py PORT DB PROTOCOL`; see clients.py."""

import asyncio
import json
import re
import sys

import glide

# glide's words for `-ERR text` and for `-CODE text`.
ERR, CODE = "An error was signalled by the server: - ResponseError: ", re.compile(r"\A([A-Z]+): ")


def spelled(reply):
    match reply:
        case bytes():
            return {"text": reply.hex()}
        case str():  # OK
            return spelled(reply.encode())
        case list():
            return [spelled(each) for each in reply]
        case dict():
            return {"map": [[spelled(name), spelled(value)] for name, value in reply.items()]}
        case Exception():
            return {"error": CODE.sub(r"\1 ", str(reply).replace(ERR, "ERR: "))}
        case _:
            return reply


async def main(port, db, protocol):
    client = await glide.GlideClient.create(glide.GlideClientConfiguration(
        [glide.NodeAddress("127.0.0.1", int(port))], database_id=int(db), request_timeout=90_000,
        protocol=glide.ProtocolVersion[f"RESP{protocol}"]))

    async def call(words):
        try:
            return await client.custom_command(words)
        except glide.RequestError as error:
            return error

    async def together(commands, is_atomic):
        batch = glide.Batch(is_atomic=is_atomic)
        for words in commands:
            batch.custom_command(words)
        return await client.exec(batch, raise_on_error=False)

    for line in sys.stdin:
        request = json.loads(line)
        commands = [[bytes.fromhex(word) for word in command] for command in request["commands"]]
        if request["do"] == "call":
            replies = [await call(words) for words in commands]
        else:
            replies = await together(commands, is_atomic=request["do"] == "multi")
        print(json.dumps(spelled(replies)), flush=True)
    await client.close()


asyncio.run(main(*sys.argv[1:]))
