"""Cases of creation, conversion between dtypes, promotion of mixed dtypes, slices and rows."""
import numpy as np

from golden import FLOATS, HALVES, INTS, TOLERANCE, Tensor, filled, integers, normal, torch
from ops_shape import ANY, of_dtype

NAN, INF = float("nan"), float("inf")


def like(dtype):
    return {} if dtype == "float32" else {"dtype": dtype}


def record_creation(r):
    kind = lambda dtype: getattr(torch, dtype)
    for dtype in ANY:
        r.case("zeros", [], filled((2, 3), dtype), lambda: torch.zeros(2, 3, dtype=kind(dtype)), shape=[2, 3], **like(dtype))
        r.case("full", [], filled((3,), dtype, 1), lambda: torch.full((3,), 1, dtype=kind(dtype)), shape=[3], value=1, **like(dtype))
        x = of_dtype((2, 2), dtype, "create")
        r.case("clone", [x], Tensor(x.v, dtype), lambda y: y.clone())
        r.case("detach", [x], Tensor(x.v, dtype), lambda y: y.detach())
        r.case("zero", [x], filled((2, 2), dtype), lambda y: torch.zeros_like(y))
        r.case("fill", [x], filled((2, 2), dtype, 1), lambda y: torch.full_like(y, 1), value=1)
        r.case("eye", [], Tensor(np.eye(3), dtype), lambda: torch.eye(3, dtype=kind(dtype)), rows=3, **like(dtype))
        if dtype != "bool":
            r.case("arange", [], Tensor(np.arange(1, 5), dtype), lambda: torch.arange(1, 5, dtype=kind(dtype)), first=1, last=4, **like(dtype))
    r.case("zeros", [], filled((0, 3)), None, shape=[0, 3], note="empty")
    r.case("full", [], Tensor(0.1, "float64"), lambda: torch.full((), 0.1, dtype=torch.float64), shape=[], value=0.1, dtype="float64")
    r.case("eye", [], Tensor(np.eye(2, 4)), lambda: torch.eye(2, 4), rows=2, columns=4)
    # As a Lua for loop: last is included where a step meets it.
    r.case("arange", [], Tensor([0, 0.25, 0.5, 0.75, 1.0]), None, first=0, last=1, step=0.25)
    r.case("arange", [], Tensor([10, 7, 4], "int64"), None, first=10, last=2, step=-3, dtype="int64")
    r.case("arange", [], filled((0,)), None, first=1, last=0, note="empty")
    for dtype in FLOATS:
        r.case("linspace", [], Tensor(np.linspace(-1, 2, 7), dtype, raw=True), lambda: torch.linspace(-1, 2, 7, dtype=kind(dtype)),
               first=-1, last=2, steps=7, **like(dtype))
    r.case("linspace", [], Tensor([5.0]), lambda: torch.linspace(5, 9, 1), first=5, last=9, steps=1)
    for dtype in ("float32", "float64", "int64"):
        x, y = of_dtype((2, 3), dtype, "to"), of_dtype((3,), "float64", "from")
        source = Tensor(np.broadcast_to(y.v, (2, 3)), dtype) if dtype in FLOATS else Tensor(np.broadcast_to(np.trunc(y.v), (2, 3)), dtype)
        r.case("copy", [x, y], source, lambda a, b: a.clone().copy_(b), note="broadcast, into x's dtype")


def record_conversion(r):
    values = {
        "float32": [0.0, 1.0, -1.5, 2.7, -2.7, 1 / 3, 65000.0, 1e-3],
        "float64": [0.0, 1.0, -1.5, 2.7, -2.7, 1 / 3, 65000.0, 1e-3],
        "bfloat16": [0.0, 1.0, -1.5, 2.7, 100.0], "float16": [0.0, 1.0, -1.5, 2.7, 100.0],
        "int64": [0, 1, -7, 100, 2**24 + 1], "int32": [0, 1, -7, 100, 2**24 + 1], "uint8": [0, 1, 7, 255], "bool": [0, 1],
    }
    for given, points in values.items():
        x = Tensor(points, given)
        for wanted in ANY:
            v = x.v
            if wanted == "uint8":
                v = np.array([y for y in v if 0 <= y < 256])
            if wanted == "float16":
                v = np.array([y for y in v if abs(y) < 65504])
            source = Tensor(v, given)
            result = source.v if wanted in TOLERANCE else source.v != 0 if wanted == "bool" else np.trunc(source.v).astype(np.int64)
            r.case("to", [source], Tensor(result, wanted), lambda y: y.to(getattr(torch, wanted)), dtype=wanted)
    x = Tensor([NAN, INF, -INF])
    for wanted in ("float64", "bfloat16", "float16"):
        r.case("to", [x], Tensor(x.v, wanted), lambda y: y.to(getattr(torch, wanted)), dtype=wanted)
    # Rounding to nearest, halves to even; overflow; the smallest numbers of float16, which have a fixed step.
    step = 2.0**-8
    x = Tensor([1 + step / 2, 1 + step, 1 + 1.5 * step, 1 + 3 * step, -(1 + step), 3.4e38])
    r.case("to", [x], Tensor(x.v, "bfloat16"), lambda y: y.to(torch.bfloat16), dtype="bfloat16", note="halfway cases")
    x = Tensor([1 + 2.0**-11, 1 + 3 * 2.0**-11, 65519.0, 65520.0, -1e6, 2.0**-24, 2.0**-25, 1.5 * 2.0**-24, 3e-6])
    r.case("to", [x], Tensor(x.v, "float16"), lambda y: y.to(torch.float16), dtype="float16", note="halfway, overflow, subnormal")
    x = Tensor(np.array([2**53 + 1, -(2**62) - 1], np.int64), "int64")
    r.case("to", [x], Tensor(x.v, "int64"), lambda y: y.to(torch.int64), dtype="int64", note="beyond a double's integers")


def record_promotion(r):
    pairs = [("float32", "float64"), ("int64", "float32"), ("int32", "int64"), ("uint8", "int32"), ("bool", "int64"), ("bool", "float32"),
             ("bfloat16", "float32"), ("float16", "float32"), ("int64", "bfloat16"), ("int32", "float64"), ("uint8", "uint8"), ("bfloat16", "float16")]
    for first, second in pairs:
        a, b = Tensor([[1], [0], [3]] if first != "bool" else [[1], [0], [1]], first), Tensor([2, 1], second)
        wider = str(torch.promote_types(getattr(torch, first), getattr(torch, second))).replace("torch.", "") if torch is not None else None
        wider = WIDER[first, second] if wider is None else wider
        assert wider == WIDER[first, second], (first, second, wider)
        r.case("add", [a, b], Tensor(a.v + b.v, wider), lambda x, y: x + y, note="mixed dtypes")
        r.case("maximum", [b, a], Tensor(np.maximum(a.v, b.v), wider), lambda x, y: torch.maximum(x, y), note="mixed dtypes")
        r.case("lt", [a, b], Tensor(a.v < b.v, "bool"), lambda x, y: x < y, note="mixed dtypes")


WIDER = {
    ("float32", "float64"): "float64", ("int64", "float32"): "float32", ("int32", "int64"): "int64", ("uint8", "int32"): "int32",
    ("bool", "int64"): "int64", ("bool", "float32"): "float32", ("bfloat16", "float32"): "float32", ("float16", "float32"): "float32",
    ("int64", "bfloat16"): "bfloat16", ("int32", "float64"): "float64", ("uint8", "uint8"): "uint8", ("bfloat16", "float16"): "float32",
}


def record_parts(r):
    for dtype in ANY:
        x = of_dtype((4, 5), dtype, "parts")
        r.case("slice", [x], Tensor(x.v[1:3], dtype), lambda y: y[1:3], dim=1, first=2, last=3)
        r.case("select", [x], Tensor(x.v[2], dtype), lambda y: y[2], dim=1, position=3)
        if dtype == "bool":
            continue
        rows, values = Tensor([3, 0, 3], "int64"), of_dtype((3, 5), dtype, "rows")
        total = x.v.copy()
        for k, row in enumerate(rows.v):
            total[row] += values.v[k]
        if dtype in ("float32", "float64", "int64", "int32"):
            r.case("index_add", [x, rows, values], Tensor(total, dtype, raw=True), lambda y, i, s: y.index_add(0, i, s), note="row 3 twice")
    x = normal((4, 5), name="parts")
    r.case("slice", [x], Tensor(x.v[:, 2:]), lambda y: y[:, 2:], dim=-1, first=3)
    r.case("slice", [x], Tensor(x.v[:, 0:5:2]), lambda y: y[:, 0:5:2], dim=2, first=1, last=5, step=2)
    r.case("slice", [x], Tensor(x.v[-2:]), lambda y: y[-2:], dim=1, first=-2, last=-1)
    r.case("select", [x], Tensor(x.v[:, 4]), lambda y: y[:, 4], dim=-1, position=-1)
    r.case("sum_to", [x], Tensor(x.v.sum(0, keepdims=True), raw=True), lambda y: y.sum_to_size(1, 5), shape=[1, 5])
    r.case("sum_to", [x], Tensor(x.v.sum(0), raw=True), lambda y: y.sum(0), shape=[5])
    r.case("sum_to", [x], Tensor(x.v.sum(), raw=True), lambda y: y.sum(), shape=[])
    r.case("index_add", [x, filled((0,), "int32"), filled((0, 5))], Tensor(x.v), lambda y, i, s: y.index_add(0, i, s), note="no rows")


def record(r):
    record_creation(r)
    record_conversion(r)
    record_promotion(r)
    record_parts(r)
