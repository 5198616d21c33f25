"""Cases of reductions, matrix products, einsum, the softmax family and running sums."""
import numpy as np

from golden import FLOATS, HALVES, INTS, Tensor, filled, integers, normal, torch

NAN, INF = float("nan"), float("inf")


def axes(dim):
    """ltrain's dims (1-based, negative from the end, one or a list) as NumPy's."""
    if dim is None:
        return None
    if isinstance(dim, list):
        return tuple(axes(d) for d in dim)
    return dim - 1 if dim > 0 else dim


def attributes(dim, keepdim=False, name="dims", **more):
    given = dict(more)
    if dim is not None:
        given[name] = dim
    if keepdim:
        given["keepdim"] = True
    return given


CHOICES = [(None, False), (1, False), (-1, False), (2, True), ([1, 3], False), ([-1, 1], True), ([1, 2, 3], False)]


def record_sums(r):
    x3 = {dtype: normal((2, 3, 4), dtype, "sums") for dtype in FLOATS + HALVES}
    ints = {dtype: integers((2, 3, 4), 0, 9, dtype, "sums") for dtype in INTS}
    ints["bool"] = Tensor(ints["int64"].v > 4, "bool")

    def twin(name):
        def call(x, dim, keepdim):
            f = getattr(torch, name)
            if dim is None:
                return f(x)
            return f(x, dim=axes(dim), keepdim=keepdim)
        return call

    for dim, keep in CHOICES:
        for dtype, x in list(x3.items()) + list(ints.items()):
            if dtype not in ("float32", "float64", "int64") and dim not in (None, 2):
                continue
            kind = dtype if x.is_float else "int64"
            r.case("sum", [x], Tensor(x.v.sum(axes(dim), keepdims=keep), kind, raw=True),
                   lambda y: twin("sum")(y, dim, keep), **attributes(dim, keep))
        for dtype in FLOATS + HALVES:
            if dtype in HALVES and dim not in (None, 2):
                continue
            x = x3[dtype]
            if dtype == "float32":
                for whole in ("int64", "bool"):
                    r.case("mean", [ints[whole]], Tensor(ints[whole].v.mean(axes(dim), keepdims=keep), raw=True),
                           lambda y: twin("mean")(y.float(), dim, keep), **attributes(dim, keep))
            r.case("mean", [x], Tensor(x.v.mean(axes(dim), keepdims=keep), dtype, raw=True),
                   lambda y: twin("mean")(y, dim, keep), **attributes(dim, keep))
            small = dtype in FLOATS
            for correction in ((1, 0) if small else (1,)):
                for name, f in (("var", np.var), ("std", np.std)):
                    more = {} if correction == 1 else {"correction": correction}
                    r.case(name, [x], Tensor(f(x.v, axes(dim), ddof=correction, keepdims=keep), dtype, raw=True),
                           lambda y: getattr(torch, name)(y, dim=axes(dim), correction=correction, keepdim=keep), **attributes(dim, keep, **more))
            r.case("logsumexp", [x], Tensor(np.log(np.exp(x.v).sum(axes(dim), keepdims=keep)), dtype, raw=True),
                   lambda y: torch.logsumexp(y, tuple(range(3)) if dim is None else axes(dim), keep), **attributes(dim, keep))
            if dim is None or not isinstance(dim, list):
                for p in (2, 1, 3, "inf"):
                    if not small and p != 2:
                        continue
                    power = INF if p == "inf" else p
                    with np.errstate(all="ignore"):
                        a = np.abs(x.v)
                        value = a.max(axes(dim), keepdims=keep) if p == "inf" else (a**p).sum(axes(dim), keepdims=keep) ** (1 / p)
                    r.case("norm", [x], Tensor(value, dtype, raw=True),
                           lambda y: torch.linalg.vector_norm(y, power, axes(dim), keep), **attributes(dim, keep, **({} if p == 2 else {"p": p})))
        if not isinstance(dim, list):
            for dtype in ("float32", "float64", "int64"):
                x = x3.get(dtype) or ints[dtype]
                r.case("prod", [x], Tensor(x.v.prod(axes(dim), keepdims=keep), dtype, raw=True),
                       lambda y: twin("prod")(y, dim, keep), **attributes(dim, keep))
    for name, value in (("sum", 0.0), ("prod", 1.0), ("mean", NAN)):
        r.case(name, [filled((0,))], Tensor(value, raw=True), lambda y, n=name: getattr(torch, n)(y), note="empty")
    r.case("sum", [filled((0, 3))], Tensor([0.0] * 3, raw=True), lambda y: y.sum(0), note="empty", dims=1)
    r.case("sum", [filled((3, 0))], Tensor([0.0] * 3, raw=True), lambda y: y.sum(1), note="empty", dims=-1)
    r.case("logsumexp", [filled((2, 0))], Tensor([-INF] * 2, raw=True), lambda y: torch.logsumexp(y, 1), note="empty", dims=2)
    r.case("sum", [Tensor(1.5)], Tensor(1.5, raw=True), lambda y: y.sum(), note="scalar")
    r.case("std", [Tensor([1.5])], Tensor(NAN, raw=True), lambda y: y.std(), note="one value has no spread")
    big = Tensor([[1000.0, 1000.0], [-1000.0, -1000.0], [-INF, -INF], [INF, 1.0]])
    r.case("logsumexp", [big], Tensor([1000 + np.log(2), -1000 + np.log(2), -INF, INF], raw=True), lambda y: torch.logsumexp(y, 1), dims=2)
    half = filled((5000,), "bfloat16", 0.0625)
    r.case("sum", [half], Tensor(5000 * 0.0625, "bfloat16", raw=True), lambda y: y.sum(), note="accumulates in float32")
    wide = Tensor(np.array([2**53, 1, 2**53, 1], np.int64), "int64")
    r.case("sum", [wide], Tensor(2**54 + 2, "int64"), lambda y: y.sum(), note="beyond a double's integers")


def record_extremes(r):
    pairs = (("amax", np.max, "amax"), ("amin", np.min, "amin"))
    for dtype in FLOATS + HALVES + INTS:
        x = normal((2, 3, 4), dtype, "extreme") if dtype in FLOATS + HALVES else integers((2, 3, 4), 0, 9, dtype, "extreme")
        for dim, keep in CHOICES:
            if dtype not in FLOATS and dim not in (None, -1):
                continue
            for op, f, name in pairs:
                r.case(op, [x], Tensor(f(x.v, axes(dim), keepdims=keep), dtype, raw=True),
                       lambda y: getattr(torch, name)(y, dim=() if dim is None else axes(dim), keepdim=keep), **attributes(dim, keep))
            if isinstance(dim, list):
                continue
            for op, f in (("argmax", np.argmax), ("argmin", np.argmin)):
                r.case(op, [x], Tensor(f(x.v, axes(dim), keepdims=keep) if dim else f(x.v), "int64"),
                       None if dtype in INTS else lambda y: getattr(torch, op)(y, dim=axes(dim), keepdim=keep), **attributes(dim, keep, "dim"))
            if dim is not None:
                for op, f, arg in (("max", np.max, np.argmax), ("min", np.min, np.argmin)):
                    values = Tensor(f(x.v, axes(dim), keepdims=keep), dtype)
                    r.case(op, [x], [values, Tensor(arg(x.v, axes(dim), keepdims=keep), "int64")],
                           None if dtype in INTS else lambda y: getattr(torch, op)(y, axes(dim), keep), **attributes(dim, keep, "dim"))
            if dtype in ("float32", "int64"):
                counted = Tensor(np.where(np.abs(x.v) < 1, 0, x.v), dtype)
                r.case("count_nonzero", [counted], Tensor(np.sum(counted.v != 0, axes(dim), keepdims=keep), "int64"),
                       None if keep else lambda y: torch.count_nonzero(y, axes(dim)), **attributes(dim, keep))
    ties = Tensor([[1.0, 3.0, 3.0, 2.0], [5.0, 5.0, 5.0, 5.0]])
    r.case("argmax", [ties], Tensor([1, 0], "int64"), lambda y: y.argmax(1), dim=2, note="ties: the first")
    r.case("argmin", [ties], Tensor([0, 0], "int64"), lambda y: y.argmin(1), dim=-1, note="ties: the first")
    nans = Tensor([[1.0, NAN, 3.0, NAN], [NAN, 0.0, INF, -INF]])
    for op in ("amax", "amin"):
        r.case(op, [nans], Tensor([NAN, NAN], raw=True), lambda y: getattr(torch, op)(y, dim=1), dims=2, note="nan spreads")
    for op in ("max", "min"):
        r.case(op, [nans], [Tensor([NAN, NAN]), Tensor([1, 0], "int64")], lambda y: getattr(torch, op)(y, 1), dim=2, note="nan spreads")
    r.case("max", [ties], [Tensor([3.0, 5.0]), Tensor([1, 0], "int64")], lambda y: torch.max(y, 1), dim=-1, note="ties: the first")
    r.case("argmax", [nans], Tensor([1, 0], "int64"), lambda y: y.argmax(1), dim=2, note="the first nan")
    r.case("argmin", [nans], Tensor([1, 0], "int64"), lambda y: y.argmin(1), dim=2, note="the first nan")
    r.case("amax", [Tensor([-INF, -INF])], Tensor(-INF, raw=True), lambda y: y.amax())
    wide = Tensor(np.array([2**53, 2**53 + 1, -(2**62)], np.int64), "int64")
    r.case("amax", [wide], Tensor(2**53 + 1, "int64"), lambda y: y.amax(), note="beyond a double's integers")
    b = Tensor([[True, False, False], [False, False, False], [True, True, True]], "bool")
    for op, f in (("any", np.any), ("all", np.all)):
        for dim, keep in ((None, False), (1, False), (-1, True)):
            r.case(op, [b], Tensor(f(b.v, axes(dim), keepdims=keep), "bool"),
                   lambda y: getattr(torch, op)(y) if dim is None else getattr(torch, op)(y, axes(dim), keep), **attributes(dim, keep))
        r.case(op, [filled((0,), "bool")], Tensor(op == "all", "bool"), lambda y: getattr(torch, op)(y), note="empty")
        x = Tensor([[0.0, 2.0], [-1.0, 3.0], [0.0, 0.0]])
        r.case(op, [x], Tensor(f(x.v != 0, 1), "bool"), lambda y: getattr(torch, op)(y, 1), dims=2, note="anything but 0 is true")


def record_products(r):
    shapes = [((2, 3), (3, 4)), ((3,), (3,)), ((2, 3), (3,)), ((3,), (3, 4)), ((5, 2, 3), (5, 3, 4)), ((5, 2, 3), (3, 4)),
              ((2, 1, 2, 3), (5, 3, 2)), ((2, 0), (0, 3)), ((0, 3), (3, 2)), ((1, 3), (3, 1)), ((4, 2, 3), (3,))]
    for a_shape, b_shape in shapes:
        for dtype in FLOATS + (("bfloat16",) if len(a_shape) == len(b_shape) else ()):
            a, b = normal(a_shape, dtype, "a"), normal(b_shape, dtype, "b")
            r.case("matmul", [a, b], Tensor(np.matmul(a.v, b.v), dtype, raw=True), lambda x, y: torch.matmul(x, y))
    equations = [("ij,jk->ik", (2, 3), (3, 4)), ("bij,bjk->bik", (2, 2, 3), (2, 3, 2)), ("ij->ji", (2, 3)), ("ij->j", (2, 3)), ("ij->", (2, 3)),
                 ("i,j->ij", (3,), (2,)), ("ij,ij->i", (2, 3), (2, 3)), ("ij,ij->", (2, 3), (2, 3)), ("bhqd,bhkd->bhqk", (1, 2, 2, 3), (1, 2, 4, 3)),
                 ("bfd,bgd->bfg", (2, 3, 2), (2, 3, 2)), ("bi,oi->bo", (2, 3), (4, 3)), ("ij,jk", (2, 3), (3, 2)), ("bd,dk,bk->b", (2, 3), (3, 4), (2, 4)),
                 ("abc,cd->dab", (2, 1, 3), (3, 2))]
    for equation, *shapes in equations:
        for dtype in FLOATS:
            xs = [normal(shape, dtype, "einsum%d" % i) for i, shape in enumerate(shapes)]
            value = np.einsum(equation, *[x.v for x in xs])
            r.case("einsum", [equation] + xs, Tensor(value, dtype, raw=True), lambda e, *ys: torch.einsum(e, *ys))


def softmax(x, axis):
    e = np.exp(x - x.max(axis, keepdims=True))
    return e / e.sum(axis, keepdims=True)


def record_softmax(r):
    for dtype in FLOATS + HALVES:
        x = normal((2, 3, 4), dtype, "softmax", 2.0)
        for dim in (-1, 1, 2):
            value = softmax(x.v, axes(dim))
            more = {} if dim == -1 else {"dim": dim}
            r.case("softmax", [x], Tensor(value, dtype, raw=True), lambda y: torch.softmax(y, axes(dim)), **more)
            r.case("log_softmax", [x], Tensor(np.log(value), dtype, raw=True), lambda y: torch.log_softmax(y, axes(dim)), **more)
    x = Tensor([[1000.0, 1001.0, 1002.0], [-1000.0, 0.0, -INF], [-INF, -INF, 5.0]])
    with np.errstate(all="ignore"):
        value = softmax(x.v, 1)
        logs = x.v - x.v.max(1, keepdims=True) - np.log(np.exp(x.v - x.v.max(1, keepdims=True)).sum(1, keepdims=True))
    r.case("softmax", [x], Tensor(value, raw=True), lambda y: torch.softmax(y, 1), note="large and masked scores")
    r.case("log_softmax", [x], Tensor(logs, raw=True), lambda y: torch.log_softmax(y, 1), note="large and masked scores")
    for op in ("softmax", "log_softmax"):
        r.case(op, [filled((0, 3))], filled((0, 3)), lambda y: getattr(torch, op)(y, 1), note="empty")
        value = 1.0 if op == "softmax" else 0.0
        r.case(op, [Tensor([[3.0], [-2.0]])], Tensor([[value], [value]], raw=True), lambda y: getattr(torch, op)(y, 1), note="one score")


def record_running(r):
    for dtype in FLOATS + HALVES + INTS:
        x = normal((2, 3, 4), dtype, "cumsum") if dtype in FLOATS + HALVES else integers((2, 3, 4), 0, 9, dtype, "cumsum")
        kind = dtype if x.is_float else "int64"
        for dim in (-1, 1, 2):
            if dtype not in FLOATS and dim != 2:
                continue
            r.case("cumsum", [x], Tensor(np.cumsum(x.v, axes(dim)), kind, raw=True), lambda y: torch.cumsum(y, axes(dim)), dim=dim)
            back = np.flip(np.cumsum(np.flip(x.v, axes(dim)), axes(dim)), axes(dim))
            r.case("cumsum", [x], Tensor(back, kind, raw=True), lambda y: y.flip(axes(dim)).cumsum(axes(dim)).flip(axes(dim)), dim=dim, reverse=True)
            if dtype in HALVES or dtype == "uint8":
                continue
            r.case("cumprod", [x], Tensor(np.cumprod(x.v, axes(dim)), kind, raw=True), lambda y: torch.cumprod(y, axes(dim)), dim=dim)
            back = np.flip(np.cumprod(np.flip(x.v, axes(dim)), axes(dim)), axes(dim))
            r.case("cumprod", [x], Tensor(back, kind, raw=True), lambda y: y.flip(axes(dim)).cumprod(axes(dim)).flip(axes(dim)), dim=dim, reverse=True)
    r.case("cumprod", [filled((0, 3))], filled((0, 3)), lambda y: torch.cumprod(y, 0), dim=1, note="empty")
    r.case("cumsum", [filled((0, 3))], filled((0, 3)), lambda y: torch.cumsum(y, 0), dim=1, note="empty")


def record(r):
    record_sums(r)
    record_extremes(r)
    record_products(r)
    record_softmax(r)
    record_running(r)
