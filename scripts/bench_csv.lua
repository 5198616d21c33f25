--- DeepFM fed from a gzipped CSV file, judged by CPU-seconds: reading (unpacking, parsing, fitting the vocabularies, encoding)
--- beside training one epoch on the same rows. The file is made once from synthetic clicks.
--- Usage: ltrain scripts/bench_csv.lua [rows = 200000] [file = data/clicks-ROWS.csv.gz] [batch = 4096]
local lt = require "ltrain"
local host = require "ltrain.host"

-- Text of the synthetic log: label, then one id a field.
local function write_file(path, rows)
  print(("writing %s"):format(path))
  local data = lt.data.synthetic_clicks { rows = rows, seed = 1 }
  local names = { "label" }
  for _, feature in ipairs(data:features()) do names[#names + 1] = feature.name end
  os.execute(("mkdir -p '%s'"):format(path:match "^(.*)/" or "."))
  local out = assert(io.popen(("gzip -6 > '%s.part' && mv '%s.part' '%s'"):format(path, path, path), "w"))
  out:write(table.concat(names, ","), "\n")
  for part in data:batch(4096):iter() do
    local ids, labels, fields, lines = part.categorical:contiguous():data(), part.label:data(), #names - 1, {}
    for i = 0, part.size - 1 do
      local line = { ("%d"):format(labels[i]) }
      for f = 0, fields - 1 do line[f + 2] = ("%x"):format(ids[i * fields + f]) end
      lines[i + 1] = table.concat(line, ",")
    end
    out:write(table.concat(lines, "\n"), "\n")
  end
  out:close()
end

---@param rows integer
---@param path string|nil
---@param batch integer
local function run(rows, path, batch)
  path = path or ("%s/data/clicks-%d.csv.gz"):format(host.home, rows)
  if not host.kind(path) then write_file(path, rows) end
  local names = {}
  for _, feature in ipairs(lt.data.synthetic_clicks({ rows = 1, seed = 1 }):features()) do names[#names + 1] = feature.name end

  local cpu, wall = os.clock(), lt.clock()
  local schema = lt.data.schema { label = "label", categorical = names, verbose = false }
  local data = lt.data.csv(path, { schema = schema })
  local read_cpu, read_wall = os.clock() - cpu, lt.clock() - wall
  print(("reading   %8.2f CPU-s  %6.2f s   %.0f rows/s, %.2f CPU-s a million rows"):format(
    read_cpu, read_wall, data:rows() / read_wall, read_cpu / data:rows() * 1e6))

  lt.manual_seed(1)
  local model = require "ltrain.models.deepfm" { features = schema:features(), dim = 10, hidden = { 400, 400, 400 } }
  model:compile { optimizer = lt.optim.Adam { lr = 1e-3 }, loss = "bce_with_logits", metrics = { "auc" } }
  cpu, wall = os.clock(), lt.clock()
  model:fit(data:shuffle(true, { seed = 1 }):batch(batch):prefetch(), { epochs = 1, verbose = false })
  local train_cpu, train_wall = os.clock() - cpu, lt.clock() - wall
  print(("training  %8.2f CPU-s  %6.2f s   %.0f rows/s"):format(train_cpu, train_wall, data:rows() / train_wall))
  print(("both      %8.2f CPU-s  %6.2f s   reading is %.1f %% of the CPU time"):format(
    read_cpu + train_cpu, read_wall + train_wall, read_cpu / (read_cpu + train_cpu) * 100))
end

if arg[0]:find "bench_csv%.lua$" then run(tonumber(arg[1] or 200000), arg[2], tonumber(arg[3] or 4096)) end
return run
