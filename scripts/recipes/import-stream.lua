-- Moves the entries of a stream into a queue, a chunk a call, oldest first. Each call is all or
-- nothing, so it may be interrupted and begun again at any time.
--
--     redis-cli RQ.XTRIM STREAM MAXLEN 0
--     until [ "$(redis-cli --eval import-stream.lua STREAM QUEUE , 1000 FIELD)" = 0 ]; do :; done
--
-- The first line removes what all consumer groups have finished; the rest is still to be done,
-- also what a worker has read and not acknowledged, so stop the workers of the stream before.
-- The payload is the value of FIELD; without FIELD, or in an entry that lacks it, all fields as
-- one JSON object. At most 5,000 at a time. Reply: the number moved. Both keys must be in one
-- slot of a cluster.
local stream, queue, n, field = KEYS[1], KEYS[2], tonumber(ARGV[1]), ARGV[2]
local ids, jobs = {}, {}
for i, entry in ipairs(redis.call('XRANGE', stream, '-', '+', 'COUNT', n)) do
  local fields, payload = {}, nil
  for at = 1, #entry[2], 2 do
    fields[entry[2][at]] = entry[2][at + 1]
  end
  if field then payload = fields[field] end
  ids[i], jobs[i] = entry[1], payload or cjson.encode(fields)
end
if #ids == 0 then return 0 end
-- If the queue does not take them, the script ends here, and the stream is as it was.
redis.call('RQ.MPUSH', queue, #jobs, unpack(jobs))
redis.call('XDEL', stream, unpack(ids))
return #ids
