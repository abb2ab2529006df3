#!/usr/bin/env node
// A worker for RQ with ioredis, to copy from. Put your own work into `handler`; the rest stays.
//
//     npm install ioredis
//     node examples/ioredis_worker.js redis://127.0.0.1:6379 QUEUE NAME
//
// It blocks for a job, keeps its lease by a heartbeat, and tells the reason if it fails. SIGTERM:
// it gives back what it holds and ends. A server that restarts or fails over is waited for.
"use strict";

const { Redis } = require("ioredis");

const BLOCK_MS = 2_000; // how long RQ.LEASE waits for a job; well below the socket's timeout
// These errors pass by themselves (a restart, a failover): connect anew and send it again.
const PASSING = /^(LOADING|READONLY|MASTERDOWN|CLUSTERDOWN|TRYAGAIN|BUSY|UNBLOCKED)\b/;

// A connection that sends a command until its reply comes. It is safe to send RQ's again: a lease
// whose reply got lost ends by itself; ACK, NACK and RELEASE with the same token do nothing the
// second time, and 0 and -1 are answers, too: the job is no longer this worker's. Not so RQ.PUSH:
// for a producer see DEDUP.
function connect(url) {
  const redis = new Redis(url, {
    maxRetriesPerRequest: null,
    socketTimeout: 10_000,
    reconnectOnError: (error) => (PASSING.test(error.message) ? 2 : false),
  });
  redis.on("error", (error) => console.error(`trying again: ${error.message}`));
  return redis;
}

async function run(url, queue, name, handler) {
  const redis = connect(url);
  const side = connect(url); // for what must get through while the other one waits
  let stopping = false;
  let held = null;

  process.on("SIGTERM", async () => {
    stopping = true;
    if (held === null) return; // a lease that is under way comes back first
    await side.call("RQ.RELEASE", queue, held.id, held.token); // this delivery does not count
    process.exit(0);
  });

  while (!stopping) {
    const leased = await redis.callBuffer("RQ.LEASE", queue, name, "BLOCK", BLOCK_MS);
    if (leased === null) continue;
    const [[id, token, deliveries, payload, leaseMs]] = leased;
    const lost = new AbortController(); // somebody else has it by now, or it was cancelled: stop
    held = { id: String(id), token, deliveries, payload, lost: lost.signal };
    if (stopping) {
      await redis.call("RQ.RELEASE", queue, id, token);
      break;
    }
    const heartbeat = setInterval(async () => {
      const [code] = await side.call("RQ.EXTEND", queue, id, token).catch(() => [1]);
      if (code !== 1) lost.abort();
    }, leaseMs / 3);
    let settle = ["RQ.ACK", queue, id, token];
    try {
      await handler(held);
    } catch (error) {
      settle = ["RQ.NACK", queue, id, token, "ERROR", String(error)];
    }
    clearInterval(heartbeat);
    held = null;
    await redis.call(...settle);
  }
  redis.disconnect();
  side.disconnect();
}

// Your work. An exception: RQ.NACK with its text. In long work, look at `job.lost.aborted`. What
// keeps the event loop busy for long keeps the heartbeat from beating.
async function handler(job) {
  console.log(`${job.id}, delivery ${job.deliveries}: ${job.payload}`);
}

if (require.main === module) {
  if (process.argv.length !== 5) {
    console.error("ioredis_worker.js URL QUEUE NAME");
    process.exit(1);
  }
  run(...process.argv.slice(2), handler);
}

module.exports = { run };
