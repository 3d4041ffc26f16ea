-- Draws the shares of a lazy packet at the claim. The source is ChaCha20 with the packet's seed as key and the grant's
-- number as nonce, read as in core's `split`. Lua has doubles, so 64-bit words are stored as 16-bit limbs, lowest
-- first.
-- KEYS as in prelude.lua
-- ARGV as in prelude.lua
-- Replies: nothing of its own
-- luacheck: read globals int
-- luacheck: ignore 211
local function words_of(seed, nonce)
  local bxor, rol = bit.bxor, bit.rol
  local key = {}
  for i = 0, 7 do
    local word = 0
    for byte = 3, 0, -1 do
      local at = 8 * i + 2 * byte + 1
      word = word * 256 + tonumber(string.sub(seed, at, at + 1), 16)
    end
    key[i + 1] = word
  end
  local counter, block, place = 0, nil, 8
  local function refill()
    local start = {0x61707865, 0x3320646e, 0x79622d32, 0x6b206574, key[1], key[2], key[3], key[4], key[5], key[6],
      key[7], key[8], counter, 0, nonce, 0}
    local s = {unpack(start)}
    local function quarter(a, b, c, d)
      s[a] = s[a] + s[b]
      s[d] = rol(bxor(s[d], s[a]), 16)
      s[c] = s[c] + s[d]
      s[b] = rol(bxor(s[b], s[c]), 12)
      s[a] = s[a] + s[b]
      s[d] = rol(bxor(s[d], s[a]), 8)
      s[c] = s[c] + s[d]
      s[b] = rol(bxor(s[b], s[c]), 7)
    end
    for _ = 1, 10 do
      quarter(1, 5, 9, 13)
      quarter(2, 6, 10, 14)
      quarter(3, 7, 11, 15)
      quarter(4, 8, 12, 16)
      quarter(1, 6, 11, 16)
      quarter(2, 7, 12, 13)
      quarter(3, 8, 9, 14)
      quarter(4, 5, 10, 15)
    end
    block = {}
    for i = 1, 16 do
      block[i] = (s[i] + start[i]) % 4294967296
    end
    counter, place = counter + 1, 0
  end
  return function()
    if place == 8 then
      refill()
    end
    place = place + 1
    local low, high = block[2 * place - 1], block[2 * place]
    return {low % 65536, math.floor(low / 65536), high % 65536, math.floor(high / 65536)}
  end
end

-- Uniform number below `bound`, which is less than 2^52. Lemire's method, as in core.
local function below(word, bound)
  local limbs, rest = {}, bound
  for i = 1, 4 do
    limbs[i] = rest % 65536
    rest = math.floor(rest / 65536)
  end
  local uneven
  while true do
    local w, p, carry = word(), {}, 0
    for i = 1, 8 do
      local sum = carry
      for j = math.max(1, i - 3), math.min(4, i) do
        sum = sum + w[j] * limbs[i + 1 - j]
      end
      p[i] = sum % 65536
      carry = math.floor(sum / 65536)
    end
    -- The low half is compared with a number under 2^52, so its highest limb must be small.
    local low = p[4] < 16 and ((p[4] * 65536 + p[3]) * 65536 + p[2]) * 65536 + p[1]
    if low and low < bound and not uneven then
      uneven = 1
      for _ = 1, 64 do
        uneven = 2 * uneven
        if uneven >= bound then
          uneven = uneven - bound
        end
      end
    end
    if not (low and uneven and low < uneven) then
      return ((p[8] * 65536 + p[7]) * 65536 + p[6]) * 65536 + p[5]
    end
  end
end

-- The share of grant `number`, if `money` minor units and `count` shares are left. No share is below `min`.
local function lazy_amount(seed, number, money, count, min)
  if count <= 1 then
    return money
  end
  local word = words_of(seed, number)
  local spare = money - count * min
  local part = 2 * spare % count
  local bound = (2 * spare - part) / count
  if part > 0 and below(word, count) < part then
    bound = bound + 1
  end
  return min + below(word, bound + 1)
end

-- Six digits in base 36. The text of a share begins with them.
local function digits(number)
  local alphabet, text = '0123456789abcdefghijklmnopqrstuvwxyz', ''
  for _ = 1, 6 do
    local digit = number % 36
    text = string.sub(alphabet, digit + 1, digit + 1) .. text
    number = (number - digit) / 36
  end
  return text
end
