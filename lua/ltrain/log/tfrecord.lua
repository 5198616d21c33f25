--- The framing of TFRecord files: length, masked CRC-32C of the length, data, masked CRC-32C of the data, all little
--- endian. Event files of TensorBoard are such files.
local ffi = require "ffi"
local band, bxor, rshift, rol, bnot = bit.band, bit.bxor, bit.rshift, bit.rol, bit.bnot

local M = {}

-- CRC-32C (Castagnoli), reflected, a byte at a time: events are small.
local TABLE = ffi.new "int32_t[256]"
for n = 0, 255 do
  local c = n
  for _ = 1, 8 do c = band(c, 1) ~= 0 and bxor(rshift(c, 1), 0x82F63B78) or rshift(c, 1) end
  TABLE[n] = c
end

---@param bytes string
---@return integer crc from 0 to 2^32 - 1
function M.crc32c(bytes)
  local c = -1
  for i = 1, #bytes do c = bxor(TABLE[band(bxor(c, bytes:byte(i)), 255)], rshift(c, 8)) end
  return bnot(c) % 4294967296
end

---A CRC of data that holds CRCs is no good check, so the format turns and shifts it.
---@return integer
function M.masked_crc(bytes)
  local crc = ffi.cast("int32_t", ffi.cast("uint32_t", M.crc32c(bytes)))
  return (rol(tonumber(crc), 17) % 4294967296 + 0xA282EAD8) % 4294967296
end

local function little_endian(n, bytes)
  local list = {}
  for i = 1, bytes do
    list[i] = string.char(n % 256)
    n = math.floor(n / 256)
  end
  return table.concat(list)
end

---One record around data.
---@param data string
---@return string
function M.record(data)
  local length = little_endian(#data, 8)
  return length .. little_endian(M.masked_crc(length), 4) .. data .. little_endian(M.masked_crc(data), 4)
end

return M
