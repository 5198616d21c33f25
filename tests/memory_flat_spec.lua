--- Memory stays flat: many small steps, steps that raise in the middle, loops left by break. The counts here are kept small
--- for the everyday run; scripts/check_memory.lua runs the same bodies with the full counts.
local flat = require "tests.memory_flat"

describe("memory", function()
  for _, case in ipairs(flat.cases) do
    it("is flat over " .. case.what, function()
      local drift, detail = flat.run(case, case.quick)
      assert.is_true(drift < 0.01, ("%s: live memory drifted by %.2f %%: %s"):format(case.what, drift * 100, detail))
    end)
  end
end)
