-- einsum against plain loops over all letters, its gradients against differences, every error's text.
local lt = require "ltrain"
local gradcheck = require "tests.gradcheck"
local fails = require "tests.ops.fails"

local SIZES = { i = 2, j = 3, k = 4, l = 2, b = 3 }

local function filled(term, seed)
  local shape = {}
  for l in term:gmatch "%a" do shape[#shape + 1] = SIZES[l] end
  local n = 1
  for _, s in ipairs(shape) do n = n * s end
  return (lt.arange(1, n, { dtype = "float64" }) * seed):sin():reshape(shape)
end

-- The value at 1-based positions given by letter.
local function at(values, term, place)
  for l in term:gmatch "%a" do values = values[place[l]] end
  return values
end

-- The result as a flat list in row-major order of its letters: for every value of all letters one product.
local function by_loops(terms, result, tensors)
  local order, seen, tables = {}, {}, {}
  for l in (result .. table.concat(terms)):gmatch "%a" do
    if not seen[l] then
      seen[l] = true
      order[#order + 1] = l
    end
  end
  for k, x in ipairs(tensors) do tables[k] = x:totable() end
  local sums, place = {}, {}
  local function walk(d, index)
    if d > #order then
      local product = 1
      for k, term in ipairs(terms) do product = product * at(tables[k], term, place) end
      sums[index + 1] = (sums[index + 1] or 0) + product
      return
    end
    local l = order[d]
    for v = 1, SIZES[l] do
      place[l] = v
      walk(d + 1, d <= #result and index * SIZES[l] + v - 1 or index)
    end
  end
  walk(1, 0)
  return sums
end

describe("einsum", function()
  for _, equation in ipairs { "ij,jk->ik", "bij,bjk->bik", "ij->ji", "ij->", "ii->i", "ii->", "ij,ij->", "ij,ij->ij",
    "i,j->ij", "ij,j->i", "bij,bkj->bik", "ij,jk,kl->il", "bi,ij,bj->b", "ij,k->", "iji->j", "bij,jk->bki",
    "ijk,jil->kl", "i,i,i->i", "bii->b", "ij,kl->ljki" } do
    it(equation, function()
      local left, result = equation:match "^(.*)%->(.*)$"
      local terms, tensors, which = {}, {}, {}
      for term in left:gmatch "[^,]+" do
        terms[#terms + 1] = term
        tensors[#terms] = filled(term, 0.7 + 0.1 * #terms)
        which[#terms] = #terms
      end
      local y = lt.einsum(equation, unpack(tensors))
      assert.close((y:reshape(-1):totable()), by_loops(terms, result, tensors), 1e-12)
      for d = 1, #result do assert.equal(SIZES[result:sub(d, d)], y.shape[d]) end
      local wrong = gradcheck.check(function(...) return lt.einsum(equation, ...) end, tensors, which)
      assert.is_nil(wrong, wrong)
    end)
  end

  it("without an arrow gives the letters that stand once, in order", function()
    local a, b = filled("ij", 0.7), filled("jk", 0.9)
    assert.close(lt.einsum("ij,jk", a, b):totable(), (lt.einsum("ij,jk->ik", a, b):totable()), 0)
    assert.close(lt.einsum("ba", a):totable(), (a:t():totable()), 0)
    assert.same({}, lt.einsum("ii", filled("il", 1)).shape)
  end)

  it("takes spaces, a list, and strided operands", function()
    local a, b = filled("ij", 0.7), filled("jk", 0.9)
    local expected = lt.einsum("ij,jk->ik", a, b):totable()
    assert.close(lt.einsum(" ij , jk -> ik ", { a, b }):totable(), expected, 0)
    assert.close(lt.einsum("ji,kj->ik", a:t(), b:t()):totable(), expected, 1e-15)
  end)

  it("broadcasts the dims of an ellipsis", function()
    local a, b = filled("bij", 0.7), filled("jk", 0.9)
    local plain = lt.einsum("bij,jk->bik", a, b):totable()
    assert.close(lt.einsum("...ij,...jk->...ik", a, b):totable(), plain, 1e-15)
    assert.close(lt.einsum("...j,jk", a, b):totable(), plain, 1e-15)
    assert.same({ 5, 2, 3, 6 }, lt.einsum("...ij,...jk->...ik", lt.ones(5, 1, 3, 4), lt.ones(2, 4, 6)).shape)
    assert.close(lt.einsum("i...->...i", a):totable(), (a:permute(2, 3, 1):totable()), 0)
  end)

  it("contracts empty dims to zeros, and whole numbers exactly", function()
    assert.same({ { 0, 0 }, { 0, 0 } }, lt.einsum("ij,jk->ik", lt.zeros(2, 0), lt.zeros(0, 2)):totable())
    assert.same({ 0, 3 }, lt.einsum("ij,jk->ik", lt.zeros(0, 2), lt.zeros(2, 3)).shape)
    local x = lt.tensor({ { 1, 2 }, { 3, 4 } }, "int64")
    assert.same({ { 7, 10 }, { 15, 22 } }, lt.einsum("ij,jk->ik", x, x):totable())
  end)

  it("says what is wrong with an equation", function()
    local a, b = lt.zeros(2, 3), lt.zeros(3, 4)
    fails("einsum: the equation must be a string, got a number", lt.einsum, 1, a)
    fails("einsum: 'ij,jk->ik': has 2 terms, and 1 tensors are given", lt.einsum, "ij,jk->ik", a)
    fails("einsum: 'ij->i1': unexpected '1' in the result; terms are letters and '...'", lt.einsum, "ij->i1", a)
    fails("einsum: 'i.j->i': unexpected '.' in term 1; terms are letters and '...'", lt.einsum, "i.j->i", a)
    fails("einsum: 'ij->i->j': has two '->'", lt.einsum, "ij->i->j", a)
    fails("einsum: 'ij->i,j': the result is one term, and there is a ',' behind '->'", lt.einsum, "ij->i,j", a)
    fails("einsum: '......i->i': term 1 has two ellipses; one is the most", lt.einsum, "......i->i", a)
    fails("einsum: 'ijk->i': term 1 names 3 dims and operand 1 is [2, 3]; name each dim, or put '...' for the rest",
      lt.einsum, "ijk->i", a)
    fails("einsum: 'i->i': term 1 names 1 dims and operand 1 is [2, 3]; name each dim, or put '...' for the rest",
      lt.einsum, "i->i", a)
    fails("einsum: '...ijk->i': term 1 names 3 dims and operand 1 is [2, 3]; it needs at least that many",
      lt.einsum, "...ijk->i", a)
    fails("einsum: 'ij,kj->ik': letter 'j' has sizes 3 in operand 1 and 4 in operand 2; they must agree",
      lt.einsum, "ij,kj->ik", a, b)
    fails("einsum: 'ii->i': letter 'i' has sizes 2 and 3 in operand 1; they must agree", lt.einsum, "ii->i", a)
    fails("einsum: 'ij->ijj': the result has letter 'j' twice; each stands there once", lt.einsum, "ij->ijj", a)
    fails("einsum: 'ij->il': the result's letter 'l' is in no operand", lt.einsum, "ij->il", a)
    fails("einsum: '...j->j': the result has no '...', but operands do; write it there too", lt.einsum, "...j->j", a)
    fails("einsum: '...i,...i->...': dim 1 from the end of '...' has sizes 2 in operand 1 and 4 in operand 2; they "
      .. "must agree or be 1", lt.einsum, "...i,...i->...", a, lt.zeros(4, 3))
    fails("einsum: 'ij->i': operand 1 must be a tensor, got a number", lt.einsum, "ij->i", 3)
  end)
end)
