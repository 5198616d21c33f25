--- Where a data set lies: data_folder(name) looks below $LTRAIN_DATA, in ../shared/data beside the program's folder, in
--- its data/ (where scripts/fetch_data.sh puts things) and in data/ here. Ends the program with the places when it is nowhere.
local host = require "ltrain.host"

---@param name string as "adult"
---@param remedy string|nil what to do when it is missing
---@return string folder
return function(name, remedy)
  local places = {}
  local given = os.getenv "LTRAIN_DATA"
  if given and given ~= "" then places[1] = given end
  for _, place in ipairs { host.home .. "/../shared/data", host.home .. "/data", "data" } do places[#places + 1] = place end
  for i, place in ipairs(places) do
    places[i] = place .. "/" .. name
    if host.kind(places[i]) then return places[i] end
  end
  require("command_line").fail("no data: there is no %s; %s", table.concat(places, ", no "), remedy or "set LTRAIN_DATA to the folder it lies in")
end
