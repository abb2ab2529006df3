-- Moves jobs that wait for their time from a sorted set into a queue, a chunk a call, the earliest
-- first: the member is the payload, the score says when. Each job is moved as a whole, so it may be
-- interrupted and begun again at any time. Sidekiq's `schedule` and `retry` are such sets:
--
--     until [ "$(redis-cli --eval import-due.lua schedule QUEUE , 1000)" = 0 ]; do :; done
--
-- Scores are Unix seconds; with MS after the number, Unix milliseconds. At most 5,000 at a time.
-- Reply: the number moved. Both keys must be in one slot of a cluster.
local set, queue, unit = KEYS[1], KEYS[2], ARGV[2] == 'MS' and 1 or 1000
local jobs = redis.call('ZRANGE', set, 0, ARGV[1] - 1, 'WITHSCORES')
for at = 1, #jobs, 2 do
  -- If the queue does not take it, the script ends here, and this one is still in the set.
  redis.call('RQ.PUSH', queue, jobs[at], 'AT', string.format('%.0f', jobs[at + 1] * unit))
  redis.call('ZREM', set, jobs[at])
end
return #jobs / 2
