// Drives BullMQ for `make bench`: node driver.js PORT, with NODE_PATH set. It reads a line of JSON
// for each thing to do and replies with one; see ../bullmq.rs. Finished jobs are removed, as they
// are by the other contenders.
'use strict';
const { Queue, Worker } = require('bullmq');
const { Redis } = require('ioredis');
const readline = require('readline');

const port = Number(process.argv[2]);
const TOKEN = 'token';
const OPTIONS = { removeOnComplete: true };
const connect = () => new Redis(port, '127.0.0.1', { maxRetriesPerRequest: null });
const times = (n, make) => Array.from({ length: n }, (_, i) => make(i));
const data = (n, size) => ({ job: String(n).padStart(16, '0'), data: 'x'.repeat(Math.max(0, size - 36)) });
const now = () => Number(process.hrtime.bigint());
const pause = () => new Promise((resolve) => setTimeout(resolve, 1));

const client = connect();
const queue = new Queue('q', { connection: connect() });
// Takes jobs by hand.
const hand = new Worker('q', null, { connection: connect(), lockDuration: 3_600_000 });

const push = (from, n, size, delay) => (n === 1
  ? queue.add('job', data(from, size), { ...OPTIONS, delay })
  : queue.addBulk(times(n, (i) => ({ name: 'job', data: data(from + i, size), opts: { ...OPTIONS, delay } }))));

const take = (n) => Promise.all(times(n, () => hand.getNextJob(TOKEN, { block: false })));

// Workers that run `work` on each job, all waiting.
async function workers(n, work, concurrency = 1) {
  const all = times(n, () => new Worker('q', work, { connection: connect(), concurrency }));
  await Promise.all(all.map((worker) => worker.waitUntilReady()));
  const blocked = async () => Number(/blocked_clients:(\d+)/.exec(await client.info('clients'))[1]);
  while (await blocked() < n) await pause();
  return all;
}

// Ends workers when all jobs are finished.
async function close(all) {
  while (await queue.getActiveCount() > 0) await pause();
  await Promise.all(all.map((worker) => worker.close(true)));
}

const does = {
  async hello() {
    await queue.waitUntilReady();
    await hand.waitUntilReady();
  },

  async cost({ jobs, batch, size }) {
    for (let n = 0; n < jobs; n += batch) {
      await push(n, batch, size);
      const taken = await take(batch);
      await Promise.all(taken.map((job) => job.moveToCompleted(0, TOKEN, false)));
    }
  },

  async push({ jobs, size, delay }) {
    for (let n = 0; n < jobs; n += 500) await push(n, Math.min(500, jobs - n), size, delay || undefined);
  },

  async take({ jobs }) {
    for (let n = 0; n < jobs; n += 100) await take(Math.min(100, jobs - n));
  },

  async latency({ workers: n, jobs, rate }) {
    const sent = [];
    const took = [];
    const all = await workers(n, async (job) => { took.push(now() - sent[Number(job.data.job)]); });
    const began = now();
    const pushes = [];
    for (let job = 0; job < jobs;) {
      if (now() - began < job * 1e9 / rate) { await pause(); continue; }
      sent.push(now());
      pushes.push(push(job++, 1, 100));
    }
    await Promise.all(pushes);
    while (took.length < jobs) await pause();
    await close(all);
    return took;
  },

  async throughput({ jobs, producers, workers: n, batch }) {
    let done = 0;
    const all = await workers(n, async () => { done += 1; }, batch);
    const began = now();
    await Promise.all(times(producers, async (p) => {
      for (let job = p * batch; job < jobs; job += producers * batch) await push(job, Math.min(batch, jobs - job), 100);
    }));
    while (done < jobs) await pause();
    const seconds = (now() - began) / 1e9;
    await close(all);
    return seconds;
  },
};

(async () => {
  for await (const line of readline.createInterface({ input: process.stdin })) {
    const request = JSON.parse(line);
    console.log(JSON.stringify(await does[request.do](request) ?? null));
  }
})();
