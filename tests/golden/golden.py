"""What the record_ops scripts share: tensors with ltrain's dtypes, the list of cases, the JSON file, the comparison with PyTorch.

Values are kept in float64 or int64 after rounding to the dtype, so that expected results are exact arithmetic on what the
engine really receives. bfloat16, which NumPy lacks, is rounded here by hand.
"""
import json
import math
import zlib

import numpy as np

try:
    import torch
except ImportError:
    torch = None

FLOATS = ("float32", "float64")
HALVES = ("bfloat16", "float16")
INTS = ("int64", "int32", "uint8")
# Relative to 1 + |expected|, what a correct kernel of that dtype may miss by (PyTorch is held to it as well).
TOLERANCE = {"float64": 1e-12, "float32": 2e-6, "float16": 2e-3, "bfloat16": 1.6e-2}
# Significant digits of an expected value in the file: well below the tolerance, and no more.
DIGITS = {"float64": 17, "float32": 10, "float16": 7, "bfloat16": 7}
# Operators that move or convert numbers: what they give is recorded in full and compared without tolerance.
EXACT = set("""to copy clone detach zeros full zero fill eye arange slice select reshape transpose permute expand squeeze unsqueeze
flatten flip cat stack split chunk pad tril triu index_select gather where masked_fill clamp relu neg abs sign floor ceil round trunc
minimum maximum amax amin max min tile diagonal diag_embed unbind movedim roll repeat_interleave diag zeros_like ones_like full_like masked_select scatter sort topk unique embedding""".split())


def to_bfloat16(values):
    """Round to nearest even on the upper 16 bits of float32."""
    x = np.asarray(values, np.float32)
    bits = x.view(np.uint32).astype(np.uint64)
    kept = ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16 << 16).astype(np.uint32)
    return np.where(np.isnan(x), x, kept.view(np.float32)).astype(np.float64)


def rounded(values, dtype):
    if dtype == "bfloat16":
        return to_bfloat16(values)
    if dtype in ("float32", "float16", "float64"):
        with np.errstate(over="ignore"):
            return np.asarray(values, np.float64).astype(dtype).astype(np.float64)
    return np.asarray(values).astype(dtype).astype(np.bool_ if dtype == "bool" else np.int64)


class Tensor:
    """values, exact, of a dtype. `raw` keeps an expected result unrounded."""

    def __init__(self, values, dtype="float32", raw=False):
        self.dtype = dtype
        self.v = np.asarray(values, np.float64) if raw and dtype in TOLERANCE else rounded(values, dtype)

    @property
    def is_float(self):
        return self.dtype in TOLERANCE

    def encode(self, digits):
        """digits: 0 for the fewest that give the value back in its dtype."""
        return {"dtype": self.dtype, "shape": list(self.v.shape), "data": [self.number(x, digits) for x in self.v.reshape(-1)]}

    def number(self, x, digits):
        if self.dtype == "bool":
            return bool(x)
        if not self.is_float:
            return int(x)  # beyond 2^53 too: ltrain's JSON reads integers exactly
        if math.isnan(x):
            return "nan"
        if math.isinf(x) or math.isinf(rounded(x, self.dtype)):
            return "inf" if x > 0 else "-inf"
        if digits == 0 and self.dtype in ("float32", "float16", "bfloat16"):
            return float(repr(np.float32(x)).replace("np.float32(", "").rstrip(")"))  # the fewest digits that give this float32
        return float("%.*g" % (digits or 17, x))

    def torch(self):
        return torch.from_numpy(np.array(self.v)).to(getattr(torch, self.dtype))


def seed_of(*names):
    return zlib.crc32("/".join(names).encode())


def normal(shape, dtype="float32", name="x", scale=1.0):
    """Repeatable values with three decimals, which keeps the file small and readable."""
    rng = np.random.default_rng(seed_of(name, str(shape)))
    return Tensor(np.round(rng.standard_normal(shape) * scale, 3), dtype)


def integers(shape, low, high, dtype="int64", name="n"):
    rng = np.random.default_rng(seed_of(name, str(shape), str(high)))
    return Tensor(rng.integers(low, high, shape), dtype)


def filled(shape, dtype="float32", value=0):
    return Tensor(np.full(shape, value), dtype)


class Recorder:
    def __init__(self):
        self.cases, self.compared, self.bad = [], 0, []

    def case(self, op, inputs, expected, twin=None, note="", **attributes):
        """inputs: Tensor, number, list of Tensors or None each. expected: Tensor or list of them. twin(*torch inputs)
        gives what PyTorch says. Attributes are ltrain's own: dims count from 1, ids from 0."""
        expected = expected if isinstance(expected, (list, tuple)) else [expected]
        text = lambda x: ([text(y) for y in x] if isinstance(x, list) else x.encode(0) if isinstance(x, Tensor) else x)
        exact = op in EXACT
        outputs = [x.encode(17 if exact else DIGITS.get(x.dtype, 0)) for x in expected]
        entry = {"op": op, "inputs": [text(x) for x in inputs], "outputs": outputs}
        if exact:
            entry["exact"] = True
        if attributes:
            entry["attributes"] = attributes
        if note:
            entry["note"] = note
        self.cases.append(entry)
        if torch is not None and twin is not None:
            self.compare(entry, inputs, expected, twin)

    def compare(self, entry, inputs, expected, twin):
        give = lambda x: [give(y) for y in x] if isinstance(x, list) else x.torch() if isinstance(x, Tensor) else x
        label = "%s %s %s" % (entry["op"], entry.get("attributes", ""), [describe(x) for x in inputs])
        try:
            got = twin(*[give(x) for x in inputs])
        except Exception as problem:  # the twin of a dtype that PyTorch's CPU build lacks must be left out on purpose
            self.bad.append("%s: PyTorch raised %s" % (label, str(problem).split("\n")[0]))
            return
        got = list(got) if isinstance(got, (list, tuple)) else [got]
        self.compared += 1
        if len(got) != len(expected):
            self.bad.append("%s: %d results, PyTorch has %d" % (label, len(expected), len(got)))
        for mine, theirs in zip(expected, got):
            their_dtype = str(theirs.dtype).replace("torch.", "")
            theirs = theirs.detach().to(torch.float64).numpy() if theirs.is_floating_point() else theirs.numpy()
            if mine.v.shape != theirs.shape or mine.dtype != their_dtype:
                self.bad.append("%s: %s %s, PyTorch %s %s" % (label, mine.dtype, mine.v.shape, their_dtype, theirs.shape))
                continue
            limit = 0 if entry.get("exact") else TOLERANCE.get(mine.dtype, 0)
            with np.errstate(all="ignore"):
                near = np.abs(rounded(mine.v, mine.dtype) - theirs) <= limit * (1 + np.abs(mine.v)) if mine.is_float else mine.v == theirs
                same = near | (rounded(mine.v, mine.dtype) == theirs)
                if mine.is_float:
                    same |= np.isnan(mine.v) & np.isnan(theirs)
            if not np.all(same):
                self.bad.append("%s:\n  here    %s\n  PyTorch %s" % (label, mine.v.reshape(-1).tolist(), theirs.reshape(-1).tolist()))

    def save(self, path):
        with open(path, "w") as out:
            out.write('{"cases":[\n')
            out.write(",\n".join(json.dumps(case, separators=(",", ":")) for case in self.cases))
            out.write("\n]}\n")


def describe(x):
    if isinstance(x, list):
        return [describe(y) for y in x]
    return "%s%s" % (x.dtype, list(x.v.shape)) if isinstance(x, Tensor) else x
