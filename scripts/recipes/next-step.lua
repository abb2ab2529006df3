-- The next step of a chain, if and only if the acknowledgement of this one counts. A worker that
-- has lost its job in the meantime (its lease ended, somebody else got it) starts nothing.
--
--     redis-cli --eval next-step.lua THIS-QUEUE NEXT-QUEUE , ID TOKEN PAYLOAD [RQ.PUSH's options]
--
-- Reply: [id of the next job, 1]; [its id, 0] if this was sent before and the reply got lost;
-- 0 or -1 as RQ.ACK says it: not yours any more, stop.
--
-- The push comes first: if it is refused (FULL, PAUSED, no memory), nothing has happened and the
-- job can be tried again. It is taken back if the acknowledgement does not count; nobody sees
-- it in between. Both keys must be in one slot of a cluster: {orders}resize {orders}mail.
local id, token = ARGV[1], ARGV[2]
local pushed = redis.call('RQ.PUSH', KEYS[2], ARGV[3], 'DEDUP', KEYS[1] .. ' ' .. id, 'WINDOW', 86400000, unpack(ARGV, 4))
local code = redis.call('RQ.ACK', KEYS[1], id, token)[1]
if code == 1 then return pushed end
if pushed[2] == 1 then redis.call('RQ.DEL', KEYS[2], pushed[1]) end
return code
