// `examples/ioredis_worker.js` with the tests' work: `PORT QUEUE NAME`; see run.py.
"use strict";

const fs = require("node:fs");
const { setTimeout } = require("node:timers/promises");
const { run } = require("../../examples/ioredis_worker.js");

async function work(job) {
  const payload = String(job.payload);
  console.log(`took ${job.id} ${job.deliveries} ${payload}`);
  const [, verb, rest] = /^(\w+) ?(.*)$/.exec(payload);
  if (verb === "fail") throw new Error(rest);
  while (verb === "wait" && !fs.existsSync(rest) && !job.lost.aborted) await setTimeout(5);
}

const [port, queue, name] = process.argv.slice(2);
run(`redis://127.0.0.1:${port}`, queue, name, work);
