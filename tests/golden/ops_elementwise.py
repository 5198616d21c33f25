"""Cases of unary and binary operators, where and clamp."""
import math

import numpy as np

from golden import FLOATS, HALVES, INTS, Tensor, filled, integers, normal, torch

NAN, INF = float("nan"), float("inf")
PLAIN = [-2.5, -1.0, -0.5, -0.125, 0.0, 0.125, 0.5, 1.0, 2.5]
EDGE = [NAN, INF, -INF]
erf = np.vectorize(math.erf, otypes=[float])
erfc = np.vectorize(math.erfc, otypes=[float])


def sigmoid(x):
    with np.errstate(all="ignore"):
        e = np.exp(-np.abs(x))
        return np.where(x >= 0, 1 / (1 + e), e / (1 + e))


def softplus(x):
    return np.logaddexp(0.0, x)


# name: (points, formula on float64, PyTorch)
def unary_table():
    f = torch.nn.functional if torch is not None else None
    t = torch
    selu_a, selu_l = 1.6732632423543772848170429916717, 1.0507009873554804934193349852946
    return {
        "exp": (PLAIN + [20.0, 80.0, -80.0] + EDGE, np.exp, lambda x: t.exp(x)),
        "expm1": (PLAIN + [1e-6, -1e-6] + EDGE, np.expm1, lambda x: t.expm1(x)),
        "log": ([0.0, 0.125, 0.5, 0.999, 1.0, 1.001, 2.5, 1e6, 1e-6, -1.0] + EDGE, np.log, lambda x: t.log(x)),
        "log1p": ([-1.0, -0.5, -1e-6, 0.0, 1e-6, 0.5, 2.5, 1e6, -2.0] + EDGE, np.log1p, lambda x: t.log1p(x)),
        "sqrt": ([0.0, 0.125, 0.5, 1.0, 2.5, 1e6, -1.0] + EDGE, np.sqrt, lambda x: t.sqrt(x)),
        "rsqrt": ([0.0, 0.125, 0.5, 1.0, 2.5, 1e6, -1.0, NAN, INF], lambda x: 1 / np.sqrt(x), lambda x: t.rsqrt(x)),
        "abs": (PLAIN + EDGE, np.abs, lambda x: t.abs(x)),
        "neg": (PLAIN + EDGE, lambda x: -x, lambda x: t.neg(x)),
        "sign": (PLAIN + [INF, -INF], np.sign, lambda x: t.sign(x)),
        "floor": (PLAIN + [-1.75, 1.75] + EDGE, np.floor, lambda x: t.floor(x)),
        "ceil": (PLAIN + [-1.75, 1.75] + EDGE, np.ceil, lambda x: t.ceil(x)),
        "round": (PLAIN + [1.5, -1.5, 3.5, -3.5] + EDGE, np.rint, lambda x: t.round(x)),  # halves go to the even neighbour
        "trunc": (PLAIN + [-1.75, 1.75] + EDGE, np.trunc, lambda x: t.trunc(x)),
        "sin": (PLAIN + [3.0, 100.0, -1000.0] + EDGE, np.sin, lambda x: t.sin(x)),
        "cos": (PLAIN + [3.0, 100.0, -1000.0] + EDGE, np.cos, lambda x: t.cos(x)),
        "tan": (PLAIN + [1.25, -1.25] + EDGE, np.tan, lambda x: t.tan(x)),
        "asin": ([-1.0, -0.875, -0.125, 0.0, 0.125, 0.875, 1.0, 1.5, NAN], np.arcsin, lambda x: t.asin(x)),
        "acos": ([-1.0, -0.875, -0.125, 0.0, 0.125, 0.875, 1.0, 1.5, NAN], np.arccos, lambda x: t.acos(x)),
        "atan": (PLAIN + [50.0] + EDGE, np.arctan, lambda x: t.atan(x)),
        "sinh": (PLAIN + [1e-3, 10.0] + EDGE, np.sinh, lambda x: t.sinh(x)),
        "cosh": (PLAIN + [10.0] + EDGE, np.cosh, lambda x: t.cosh(x)),
        "tanh": (PLAIN + [1e-3, 10.0, -30.0] + EDGE, np.tanh, lambda x: t.tanh(x)),
        "sigmoid": (PLAIN + [20.0, -20.0, 100.0, -100.0] + EDGE, sigmoid, lambda x: t.sigmoid(x)),
        "softplus": (PLAIN + [15.0, -15.0, 100.0] + EDGE, softplus, lambda x: -f.logsigmoid(-x)),
        "logsigmoid": (PLAIN + [15.0, -15.0, -100.0] + EDGE, lambda x: -softplus(-x), lambda x: f.logsigmoid(x)),
        "relu": (PLAIN + EDGE, lambda x: np.where(np.isnan(x), x, np.maximum(x, 0)), lambda x: t.relu(x)),
        "selu": (PLAIN + EDGE, lambda x: selu_l * np.where(x > 0, x, selu_a * np.expm1(np.minimum(x, 0))), lambda x: f.selu(x)),
        "silu": (PLAIN + [20.0, -20.0], lambda x: x * sigmoid(x), lambda x: f.silu(x)),
        "mish": (PLAIN + [20.0, -20.0], lambda x: x * np.tanh(softplus(x)), lambda x: f.mish(x)),
        "hardsigmoid": (PLAIN + [-3.0, 3.0, -4.0, 4.0], lambda x: np.clip(x / 6 + 0.5, 0, 1), lambda x: f.hardsigmoid(x)),
        "softsign": (PLAIN + [0.0], lambda x: x / (1 + np.abs(x)), lambda x: f.softsign(x)),
        "hardswish": (PLAIN + [-3.0, 3.0, -4.0, 4.0], lambda x: x * np.clip(x / 6 + 0.5, 0, 1), lambda x: f.hardswish(x)),
        "erf": (PLAIN + [4.0, -4.0] + EDGE, erf, lambda x: t.erf(x)),
        "erfc": (PLAIN + [4.0, -4.0] + EDGE, erfc, lambda x: t.erfc(x)),
        "reciprocal": (PLAIN + EDGE, lambda x: 1 / x, lambda x: t.reciprocal(x)),
        "square": (PLAIN + EDGE, lambda x: x * x, lambda x: t.square(x)),
        "logit": ([0.0, 0.001, 0.125, 0.5, 0.75, 0.999, 1.0, NAN], lambda x: np.log(x) - np.log1p(-x), lambda x: t.logit(x)),
    }


def record_unary(r):
    for name, (points, formula, twin) in unary_table().items():
        for dtype in FLOATS + HALVES:
            keep = points if dtype in FLOATS else [p for p in points if not abs(p) > 20 or math.isinf(p)]
            x = Tensor(keep, dtype)
            with np.errstate(all="ignore"):
                r.case(name, [x], Tensor(formula(x.v), dtype, raw=True), twin)
        with np.errstate(all="ignore"):
            empty, scalar = filled((0, 3)), Tensor(0.5)
            r.case(name, [empty], Tensor(formula(empty.v), raw=True), twin, note="empty")
            r.case(name, [scalar], Tensor(formula(scalar.v), raw=True), twin, note="scalar")
    for name, formula in (("abs", np.abs), ("neg", np.negative), ("sign", np.sign), ("square", np.square)):
        for dtype in ("int64", "int32"):
            x = Tensor([-7, -1, 0, 1, 300], dtype)
            r.case(name, [x], Tensor(formula(x.v), dtype), lambda y, n=name: getattr(torch, n)(y))
    big = Tensor(np.array([2**53 + 1, -(2**62) - 1, 3], np.int64), "int64")
    r.case("neg", [big], Tensor(-big.v, "int64"), lambda x: torch.neg(x), note="beyond a double's integers")
    for name, formula in (("exp", np.exp), ("sqrt", np.sqrt), ("sigmoid", sigmoid)):
        x = Tensor([0, 1, 2, 9], "int64")
        r.case(name, [x], Tensor(formula(x.v.astype(np.float64)), "float32", raw=True), lambda y, n=name: getattr(torch, n)(y), note="ids to float32")

    f = torch.nn.functional if torch is not None else None
    with np.errstate(all="ignore"):
        for dtype in FLOATS + HALVES:
            x = Tensor(PLAIN + [20.0, -20.0], dtype)
            v = x.v
            out = lambda values: Tensor(values, dtype, raw=True)
            for slope in (0.01, 0.2):
                r.case("leaky_relu", [x], out(np.where(v > 0, v, slope * v)), lambda y, s=slope: f.leaky_relu(y, s), slope=slope)
            for alpha in (1.0, 0.5):
                r.case("elu", [x], out(np.where(v > 0, v, alpha * np.expm1(np.minimum(v, 0)))), lambda y, a=alpha: f.elu(y, a), alpha=alpha)
            r.case("gelu", [x], out(v * 0.5 * (1 + erf(v / math.sqrt(2)))), lambda y: f.gelu(y))
            r.case("gelu_tanh", [x], out(v * 0.5 * (1 + np.tanh(math.sqrt(2 / math.pi) * (v + 0.044715 * v**3)))),
                   lambda y: f.gelu(y, approximate="tanh"))
            r.case("softplus", [x], out(softplus(2 * v) / 2), lambda y: -f.logsigmoid(-2 * y) / 2, beta=2)
            r.case("hardtanh", [x], out(np.clip(v, -1, 1)), lambda y: f.hardtanh(y))
            r.case("hardtanh", [x], out(np.clip(v, -2, 0.5)), lambda y: f.hardtanh(y, -2, 0.5), low=-2, high=0.5)
            y = Tensor(PLAIN + EDGE, dtype)
            for name, formula in (("isnan", np.isnan), ("isinf", np.isinf), ("isfinite", np.isfinite)):
                r.case(name, [y], Tensor(formula(y.v), "bool"), lambda z, n=name: getattr(torch, n)(z))


def record_binary(r):
    t = torch
    arithmetic = {
        "add": (np.add, lambda a, b: a + b),
        "sub": (np.subtract, lambda a, b: a - b),
        "mul": (np.multiply, lambda a, b: a * b),
        "div": (np.divide, lambda a, b: a / b),
        "floordiv": (np.floor_divide, lambda a, b: t.floor_divide(a, b)),
        "mod": (np.mod, lambda a, b: t.remainder(a, b)),
        "minimum": (np.minimum, lambda a, b: t.minimum(a, b)),
        "maximum": (np.maximum, lambda a, b: t.maximum(a, b)),
        "atan2": (np.arctan2, lambda a, b: t.atan2(a, b)),
        "pow": (np.power, lambda a, b: t.pow(a, b)),
    }
    compare = {
        "eq": (np.equal, lambda a, b: a == b), "ne": (np.not_equal, lambda a, b: a != b),
        "lt": (np.less, lambda a, b: a < b), "le": (np.less_equal, lambda a, b: a <= b),
        "gt": (np.greater, lambda a, b: a > b), "ge": (np.greater_equal, lambda a, b: a >= b),
    }
    a_points = [-7.5, -2.0, -0.5, 0.0, 0.5, 2.0, 7.5, 3.0]
    b_points = [2.0, -3.0, 0.25, 4.0, 0.5, 2.0, -2.0, 3.0]
    with np.errstate(all="ignore"):
        for name, (formula, twin) in list(arithmetic.items()) + list(compare.items()):
            result = "bool" if name in compare else None
            for dtype in FLOATS + HALVES:
                a, b = Tensor(a_points, dtype), Tensor(b_points, dtype)
                if name == "pow":
                    a = Tensor(np.abs(a.v), dtype)
                r.case(name, [a, b], Tensor(formula(a.v, b.v), result or dtype, raw=True), twin)
            for dtype in INTS:
                if name == "atan2":
                    continue
                a, b = Tensor([7, 2, 9, 0, 5, 3], dtype), Tensor([2, 3, 4, 5, 5, 1], dtype)
                if dtype != "uint8" and name != "pow":
                    a, b = Tensor([-7, 2, -9, 0, 5, 3], dtype), Tensor([2, -3, -4, 5, 5, 1], dtype)
                if name == "sub" and dtype == "uint8":
                    a = Tensor([7, 3, 9, 5, 5, 200], dtype)
                kind = result or ("float32" if name == "div" else dtype)
                value = formula(a.v, b.v)
                r.case(name, [a, b], Tensor(value, kind, raw=True), twin)
            for shape_a, shape_b in (((3, 1), (1, 4)), ((4,), (2, 1, 4)), ((2, 3), ()), ((0, 3), (3,)), ((1,), (0, 1))):
                a, b = normal(shape_a, name=name + "a"), normal(shape_b, name=name + "b")
                if name == "pow":
                    a = Tensor(np.abs(a.v))
                r.case(name, [a, b], Tensor(formula(a.v, b.v), result or "float32", raw=True), twin, note="broadcast")
            edge_a, edge_b = Tensor([NAN, 1.0, NAN, INF, -INF, INF]), Tensor([1.0, NAN, NAN, 1.0, INF, INF])
            if name not in ("floordiv", "mod", "pow", "atan2"):
                r.case(name, [edge_a, edge_b], Tensor(formula(edge_a.v, edge_b.v), result or "float32", raw=True), twin, note="nan and inf")
        x = normal((2, 3), name="number")
        for name in ("add", "sub", "mul", "div", "lt", "maximum"):
            formula, twin = (arithmetic.get(name) or compare.get(name))
            result = "bool" if name in compare else "float32"
            call = twin if name != "maximum" else lambda a, b: t.maximum(a, t.tensor(b, dtype=a.dtype))
            r.case(name, [x, 0.5], Tensor(formula(x.v, 0.5), result, raw=True), call, note="with a number")
        r.case("sub", [1, x], Tensor(1 - x.v, raw=True), lambda a, b: a - b, note="number first")
        r.case("div", [1, x], Tensor(1 / x.v, raw=True), lambda a, b: a / b, note="number first")
        p = Tensor([-2.0, 0.0, 0.5, 3.0])
        for power in (2, 3, 0, -1, 0.5):
            r.case("pow", [p, power], Tensor(np.power(p.v, power), raw=True), lambda a, b: t.pow(a, b), note="constant power")
        n = Tensor([1, 2, 3], "int64")
        r.case("add", [n, 2], Tensor(n.v + 2, "int64"), lambda a, b: a + b, note="ids with a whole number stay ids")
    wide = Tensor(np.array([2**53 + 1, -(2**60) - 7, 2**40], np.int64), "int64")
    one = Tensor([1, 2, 3], "int64")
    r.case("add", [wide, one], Tensor(wide.v + one.v, "int64"), lambda a, b: a + b, note="beyond a double's integers")
    r.case("eq", [wide, Tensor(wide.v + np.array([1, 0, 1]), "int64")], Tensor([False, True, False], "bool"), lambda a, b: a == b,
           note="beyond a double's integers")
    a, b = Tensor([True, True, False, False], "bool"), Tensor([True, False, True, False], "bool")
    for name, formula in (("logical_and", np.logical_and), ("logical_or", np.logical_or), ("logical_xor", np.logical_xor)):
        r.case(name, [a, b], Tensor(formula(a.v, b.v), "bool"), lambda x, y, n=name: getattr(torch, n)(x, y))
        x, y = Tensor([0.0, 2.0, -1.0, 0.0]), Tensor([0.0, 0.0, 3.0, 1.0])
        r.case(name, [x, y], Tensor(formula(x.v, y.v), "bool"), lambda x, y, n=name: getattr(torch, n)(x, y), note="numbers: anything but 0 is true")
    r.case("logical_not", [a], Tensor(~a.v, "bool"), lambda x: torch.logical_not(x))


def record_select(r):
    for dtype in FLOATS + HALVES + INTS:
        c = Tensor([[True, False, True]], "bool")
        a, b = Tensor([[1, 2, 3], [4, 5, 6]], dtype), Tensor([[7], [8]], dtype)
        r.case("where", [c, a, b], Tensor(np.where(c.v, a.v, b.v), dtype), lambda c, a, b: torch.where(c, a, b), note="broadcast")
    c = Tensor([True, False, False], "bool")
    a, b = Tensor([NAN, NAN, 1.0]), Tensor([0.0, 2.0, NAN])
    r.case("where", [c, a, b], Tensor(np.where(c.v, a.v, b.v), raw=True), lambda c, a, b: torch.where(c, a, b), note="the other branch's nan stays out")
    for dtype in FLOATS + HALVES + ("int64", "int32"):
        x = Tensor([-3, -1, 0, 2, 5], dtype)
        r.case("clamp", [x], Tensor(np.clip(x.v, -1, 2), dtype), lambda x: torch.clamp(x, -1, 2), low=-1, high=2)
        r.case("clamp", [x], Tensor(np.maximum(x.v, 0), dtype), lambda x: torch.clamp(x, min=0), low=0)
        r.case("clamp", [x], Tensor(np.minimum(x.v, 1), dtype), lambda x: torch.clamp(x, max=1), high=1)
    x = Tensor([NAN, INF, -INF, 0.5])
    r.case("clamp", [x], Tensor([NAN, 1.0, 0.0, 0.5], raw=True), lambda x: torch.clamp(x, 0, 1), low=0, high=1, note="nan stays nan")
    for dtype in FLOATS + HALVES + INTS:
        x = Tensor([[1, 2, 3], [4, 5, 6]], dtype)
        m = Tensor([[True], [False]], "bool")
        r.case("masked_fill", [x, m], Tensor(np.where(m.v, 9, x.v), dtype), lambda x, m: x.masked_fill(m, 9), value=9, note="broadcast")
    x = normal((2, 2), name="mask")
    r.case("masked_fill", [x, Tensor([[True, False], [False, True]], "bool")],
           Tensor(np.where([[True, False], [False, True]], -INF, x.v), raw=True), lambda x, m: x.masked_fill(m, -INF), value="-inf")


def record(r):
    record_unary(r)
    record_binary(r)
    record_select(r)
