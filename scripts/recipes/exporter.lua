-- Figures of RQ for Prometheus: redis_exporter -script exporter.lua
--
-- redis_exporter knows the fields of INFO by name and leaves out all others, those of modules as
-- well. What this returns it shows as redis_script_values{key="rq_ready_jobs"}, and so on; of each
-- queue as {key="rq_queue_ready:DATABASE:KEY"}.
local figures = {}

local function show(name, value)
  figures[#figures + 1] = name
  figures[#figures + 1] = value
end

for line in string.gmatch(redis.call('INFO', 'rq'), '[^\r\n]+') do
  local name, value = string.match(line, '^(rq_[%w_]+):(%d+)$')
  if name then
    show(name, value)
  end
  local db, key, fields = string.match(line, '^rq_queue%d+:db=(%d+),key=([^,]*),(.*)$')
  if db then
    for field, number in string.gmatch(fields, '([%w_]+)=(%d+)') do
      show('rq_queue_' .. field .. ':' .. db .. ':' .. key, number)
    end
  end
end

return figures
