--- The full counts of the memory checks: 10^6 small steps, 10^4 steps that raise, 10^4 loops left by break. A few minutes.
--- Usage: ltrain scripts/check_memory.lua
local flat = require "tests.memory_flat"

local failed = 0
for _, case in ipairs(flat.cases) do
  local start = os.time()
  local drift, detail = flat.run(case, case.full)
  local ok = drift < 0.01
  if not ok then failed = failed + 1 end
  print(("%s  %s (%d): drift %.3f %%, %d s; %s"):format(ok and "ok  " or "FAIL", case.what, case.full, drift * 100, os.time() - start, detail))
end
os.exit(failed == 0 and 0 or 1)
