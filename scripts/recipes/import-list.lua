-- Moves the jobs of a plain list into a queue, a chunk a call, in the order in which workers
-- would have popped them. Each call is all or nothing, so it may be interrupted and begun again
-- at any time, and producers and workers of the list may go on meanwhile.
--
--     until [ "$(redis-cli --eval import-list.lua LIST QUEUE , 1000)" = 0 ]; do :; done
--
-- For lists that are filled by LPUSH and emptied by RPOP, as usual; with RIGHT after the number,
-- for those filled by RPUSH and emptied by LPOP. At most 5,000 at a time. Reply: the number moved.
-- Both keys must be in one slot of a cluster.
local list, queue, n = KEYS[1], KEYS[2], tonumber(ARGV[1])
local jobs
if ARGV[2] == 'RIGHT' then
  jobs = redis.call('LRANGE', list, 0, n - 1)
else
  local tail = redis.call('LRANGE', list, -n, -1)
  jobs = {}
  for i = #tail, 1, -1 do jobs[#jobs + 1] = tail[i] end
end
if #jobs == 0 then return 0 end
-- If the queue does not take them, the script ends here, and the list is as it was.
redis.call('RQ.MPUSH', queue, #jobs, unpack(jobs))
if ARGV[2] == 'RIGHT' then
  redis.call('LTRIM', list, #jobs, -1)
else
  redis.call('LTRIM', list, 0, -#jobs - 1)
end
return #jobs
