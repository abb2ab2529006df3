-- What the Prometheus exporter asks the server for RQ's metrics, see docs/MONITORING.md:
--
--     redis_exporter --script dashboards/rq.lua ...
--     redis-cli --eval dashboards/rq.lua
--
-- Reply: names and values in turn. A name is that of a metric, or METRIC|QUEUE. It reads only, and
-- knows at most 1,000 queues: those of the database in which it runs that the user may read.
local out = {}
local function tell(name, value)
  out[#out + 1] = name
  out[#out + 1] = tostring(value)
end

-- The fields of `INFO rq` that are numbers; yes and no are 1 and 0.
for name, value in string.gmatch(redis.call('INFO', 'rq'), '(rq_[%w_]+):([^\r\n]*)') do
  if value == 'yes' then value = 1 elseif value == 'no' then value = 0 end
  if tonumber(value) then tell(name, value) end
end

-- Queues are told of by the primary alone, so that no sum counts a job twice.
if not string.find(redis.call('INFO', 'replication'), 'role:master', 1, true) then return out end

local findings = { critical = 0, warning = 0, notice = 0 }
for _, finding in ipairs(redis.call('RQ.DOCTOR')) do
  findings[finding[1]] = findings[finding[1]] + 1
end
tell('rq_doctor_critical', findings.critical)
tell('rq_doctor_warning', findings.warning)

-- Times are told in seconds, as Prometheus has them.
for _, queue in ipairs(redis.call('RQ.QUEUES', 'COUNT', 1000)) do
  local flat, info = redis.call('RQ.INFO', queue[1]), {}
  for at = 1, #flat, 2 do info[flat[at]] = flat[at + 1] end
  local function field(metric, value) tell('rq_queue_' .. metric .. '|' .. queue[1], value) end
  for _, name in ipairs({
    'ready', 'scheduled', 'retrying', 'leased', 'dead', 'done', 'groups', 'concurrency', 'maxlive',
    'held-duplicates', 'blocked-clients',
    'ready-bytes', 'delayed-bytes', 'leased-bytes', 'dead-bytes', 'done-bytes',
    'pushed-total', 'delivered-total', 'acked-total', 'failed-total', 'expired-total', 'released-total',
    'dead-total', 'dead-dropped-total', 'redriven-total', 'trimmed-total', 'slots-skipped-total',
  }) do
    field(string.gsub(name, '-', '_'), info[name])
  end
  for _, name in ipairs({ 'oldest-ready', 'oldest-lease', 'oldest-dead' }) do
    field(string.gsub(name, '-', '_') .. '_seconds', (info[name .. '-ms'] or 0) / 1000)
  end
  field('lease_seconds', info['lease'] / 1000)
  for _, name in ipairs({ 'wait', 'run' }) do
    for _, percentile in ipairs({ 'p50', 'p99' }) do
      local ms = info[name .. '-ms-' .. percentile]
      if ms then field(name .. '_' .. percentile .. '_seconds', ms / 1000) end
    end
  end
  -- Counts of this process, which begin anew with it.
  for _, name in ipairs({ 'stale', 'duplicates', 'full' }) do
    field(name .. '_total', info['local-' .. name])
  end
  for _, reason in ipairs({ 'concurrency', 'rate', 'groups' }) do
    field('held_by_' .. reason, info['held'] == reason and 1 or 0)
  end
  for _, way in ipairs({ 'in', 'out' }) do
    field('paused_' .. way, info['paused-' .. way] and 1 or 0)
  end
end
return out
