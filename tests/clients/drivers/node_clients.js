// Drives a client for Node: `node node_clients.js LIBRARY PORT DB PROTOCOL`; see clients.py.
"use strict";

const readline = require("node:readline");

const [library, port, db, protocol] = [process.argv[2], ...process.argv.slice(3).map(Number)];

function spelled(reply) {
  if (reply === null || typeof reply === "number") return reply;
  if (typeof reply === "string" || Buffer.isBuffer(reply)) return { text: Buffer.from(reply).toString("hex") };
  if (reply instanceof Error) return { error: reply.message };
  if (Array.isArray(reply)) return reply.map(spelled);
  const pairs = reply instanceof Map ? [...reply] : Object.entries(reply);
  return { map: pairs.map((pair) => pair.map(spelled)) };
}

const refused = (error) => error;

// ioredis, and iovalkey, which comes from it.
async function likeIoredis(Redis) {
  const client = new Redis({
    port, host: "127.0.0.1", db, protocol, replyMapping: protocol === 3 ? "resp3" : undefined,
  });
  const together = async (start, commands) => {
    const chain = client[start]();
    for (const [name, ...args] of commands) chain.callBuffer(String(name), ...args);
    return (await chain.exec()).map(([error, reply]) => error ?? reply);
  };
  return {
    call: ([name, ...args]) => client.callBuffer(String(name), ...args).catch(refused),
    pipe: (commands) => together("pipeline", commands),
    multi: (commands) => together("multi", commands),
    close: () => client.disconnect(),
  };
}

async function nodeRedis({ createClient, RESP_TYPES }) {
  const client = createClient({ socket: { port, host: "127.0.0.1" }, database: db, RESP: protocol });
  client.on("error", (error) => console.error(error));
  await client.connect();
  const bytes = client.withTypeMapping({ [RESP_TYPES.BLOB_STRING]: Buffer, [RESP_TYPES.MAP]: Map });
  const call = (words) => bytes.sendCommand(words).catch(refused);
  return {
    call,
    // What is sent in one turn of the event loop goes out together.
    pipe: (commands) => Promise.all(commands.map(call)),
    // Its own multi() replies text, which spoils bytes: it gives EXEC no type mapping.
    multi: async (commands) => (await Promise.all([["MULTI"], ...commands, ["EXEC"]].map(call))).at(-1),
    close: () => client.destroy(),
  };
}

async function main() {
  const exported = require(library);
  const client = await (library === "redis" ? nodeRedis(exported) : likeIoredis(exported));
  for await (const line of readline.createInterface({ input: process.stdin })) {
    const request = JSON.parse(line);
    const commands = request.commands.map((words) => words.map((word) => Buffer.from(word, "hex")));
    const replies = request.do === "call" ? [await client.call(commands[0])] : await client[request.do](commands);
    console.log(JSON.stringify(spelled(replies)));
  }
  client.close();
}

main();
