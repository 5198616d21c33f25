"""Cases of operators that move, pick, sort and count elements."""
import numpy as np

from golden import FLOATS, HALVES, INTS, Tensor, filled, integers, normal, torch
from ops_reduce import axes

NAN, INF = float("nan"), float("inf")
ANY = ("float32", "float64", "bfloat16", "float16", "int64", "int32", "uint8", "bool")


def of_dtype(shape, dtype, name):
    if dtype in FLOATS + HALVES:
        return normal(shape, dtype, name)
    if dtype == "bool":
        return Tensor(integers(shape, 0, 2, "int64", name).v, "bool")
    return integers(shape, 0, 99, dtype, name)


def record_layout(r):
    def same(op, x, result, twin, **more):
        values = result if isinstance(result, list) else [result]
        r.case(op, more.pop("inputs", [x]), [Tensor(v, x.dtype) for v in values], twin, **more)

    for dtype in ANY:
        x = of_dtype((2, 3, 4), dtype, "layout")
        few = dtype not in ("float32", "int64")
        same("reshape", x, x.v.reshape(6, 4), lambda y: y.reshape(6, 4), shape=[6, 4])
        same("transpose", x, x.v.swapaxes(0, 2), lambda y: y.transpose(0, 2), dim1=1, dim2=3)
        same("flip", x, x.v[::-1], lambda y: y.flip(0), dims=[1])
        same("cat", x, np.concatenate([x.v, x.v[:, :1]], 1), lambda ys: torch.cat(ys, 1), inputs=[[x, Tensor(x.v[:, :1], dtype)]], dim=2)
        same("stack", x, np.stack([x.v, x.v], 0), lambda ys: torch.stack(ys, 0), inputs=[[x, x]], dim=1)
        same("pad", x, np.pad(x.v, ((0, 0), (0, 0), (1, 2))), lambda y: torch.nn.functional.pad(y, (1, 2)), pad=[1, 2])
        if few:
            continue
        same("reshape", x, x.v.reshape(3, 8), lambda y: y.reshape(3, -1), shape=[3, -1])
        same("reshape", x, x.v.reshape(24), lambda y: y.reshape(-1), shape=[-1])
        same("transpose", x, x.v.swapaxes(1, 2), lambda y: y.transpose(-1, -2), dim1=-1, dim2=-2)
        same("permute", x, x.v.transpose(2, 0, 1), lambda y: y.permute(2, 0, 1), dims=[3, 1, 2])
        same("permute", x, x.v.transpose(0, 2, 1), lambda y: y.permute(0, -1, -2), dims=[1, -1, -2])
        same("flip", x, x.v[:, ::-1, ::-1], lambda y: y.flip(1, 2), dims=[2, -1])
        same("squeeze", Tensor(x.v[:, :1], dtype), x.v[:, 0], lambda y: y.squeeze(1), dims=2)
        same("unsqueeze", x, x.v[:, None], lambda y: y.unsqueeze(1), dim=2)
        same("unsqueeze", x, x.v[..., None], lambda y: y.unsqueeze(-1), dim=-1)
        same("flatten", x, x.v.reshape(24), lambda y: y.flatten())
        same("flatten", x, x.v.reshape(2, 12), lambda y: y.flatten(1), start_dim=2)
        same("expand", Tensor(x.v[:, :1], dtype), np.broadcast_to(x.v[:, :1], (2, 5, 4)), lambda y: y.expand(2, 5, 4), shape=[2, 5, 4])
        same("expand", Tensor(x.v[0, 0], dtype), np.broadcast_to(x.v[0, 0], (3, 2, 4)), lambda y: y.expand(3, 2, -1), shape=[3, 2, -1])
        same("split", x, [x.v[:, :2], x.v[:, 2:]], lambda y: list(y.split(2, 1)), size=2, dim=2)
        same("split", x, [x.v[..., :1], x.v[..., 1:]], lambda y: list(y.split([1, 3], -1)), size=[1, 3], dim=-1)
        same("chunk", x, [x.v[..., :2], x.v[..., 2:]], lambda y: list(y.chunk(2, -1)), chunks=2, dim=-1)
        same("chunk", x, [x.v[:, :2], x.v[:, 2:]], lambda y: list(y.chunk(2, 1)), chunks=2, dim=2)
        same("pad", x, np.pad(x.v, ((0, 0), (2, 0), (0, 1)), constant_values=7), lambda y: torch.nn.functional.pad(y, (0, 1, 2, 0), value=7),
             pad=[0, 1, 2, 0], value=7)
        same("pad", x, x.v[..., 1:], lambda y: torch.nn.functional.pad(y, (-1, 0)), pad=[-1, 0], note="a negative width crops")
        same("pad", x, np.pad(x.v, ((0, 0), (1, 1), (2, 3)), "reflect"), lambda y: torch.nn.functional.pad(y, (2, 3, 1, 1), "reflect"),
             pad=[2, 3, 1, 1], mode="reflect") if dtype == "float32" else None
        same("pad", x, np.pad(x.v, ((0, 0), (1, 2), (2, 1)), "edge"),
             (lambda y: torch.nn.functional.pad(y, (2, 1, 1, 2), "replicate")) if dtype == "float32" else None,
             pad=[2, 1, 1, 2], mode="replicate")
        same("tile", x, np.tile(x.v, (2, 1, 3)), lambda y: y.tile(2, 1, 3), repeats=[2, 1, 3])
        same("tile", x, np.tile(x.v, (2, 1, 1, 1)), lambda y: y.tile(2, 1, 1, 1), repeats=[2, 1, 1, 1], note="a dim in front")
        same("diagonal", x, np.diagonal(x.v, 0, 1, 2), lambda y: y.diagonal(0, 1, 2))
        same("diagonal", x, np.diagonal(x.v, 1, 0, 2), lambda y: y.diagonal(1, 0, 2), diagonal=1, dim1=1, dim2=3)
        line = Tensor(x.v[0, :2, :2], dtype)
        for k in (0, 1, -1):
            value = np.zeros((2, 2 + abs(k), 2 + abs(k)))
            for i in range(2):
                value[:, i + max(-k, 0), i + max(k, 0)] = line.v[:, i]
            same("diag_embed", line, value, lambda y: torch.diag_embed(y, k), **({"diagonal": k} if k else {}))
        square = Tensor(x.v.reshape(4, 6), dtype)
        for k in (0, 1, -2):
            more = {} if k == 0 else {"diagonal": k}
            same("tril", square, np.tril(square.v, k), lambda y: torch.tril(y, k), **more)
            same("triu", square, np.triu(square.v, k), lambda y: torch.triu(y, k), **more)
        same("tril", x, np.tril(x.v), lambda y: torch.tril(y), note="each matrix of a batch")
    e = filled((0, 3))
    same("cat", e, np.ones((2, 3)), lambda ys: torch.cat(ys, 0), inputs=[[e, Tensor(np.ones((2, 3)))]], dim=1, note="empty")
    same("reshape", e, np.zeros((3, 0)), lambda y: y.reshape(3, 0), shape=[3, 0], note="empty")
    same("reshape", Tensor(2.5), np.array([2.5]), lambda y: y.reshape(1), shape=[1], note="scalar")
    same("flip", e, np.zeros((0, 3)), lambda y: y.flip(0), dims=[1], note="empty")


def record_composed(r):
    """Functions that ltrain makes of others; their arguments go by position, after the tensor."""
    for dtype in ("float32", "int64"):
        x = of_dtype((2, 3, 4), dtype, "composed")
        out = lambda v: Tensor(v, dtype)
        r.case("unbind", [x, 2], [out(x.v[:, i]) for i in range(3)], lambda y, d: list(y.unbind(1)))
        r.case("unbind", [x], [out(x.v[0]), out(x.v[1])], lambda y: list(y.unbind()))
        r.case("movedim", [x, 1, 3], out(np.moveaxis(x.v, 0, 2)), lambda y, a, b: y.movedim(0, 2))
        r.case("movedim", [x, -1, 1], out(np.moveaxis(x.v, -1, 0)), lambda y, a, b: y.movedim(-1, 0))
        r.case("roll", [x, 1, 3], out(np.roll(x.v, 1, 2)), lambda y, s, d: y.roll(1, 2))
        r.case("roll", [x, -2, 2], out(np.roll(x.v, -2, 1)), lambda y, s, d: y.roll(-2, 1))
        r.case("repeat_interleave", [x, 2, -1], out(np.repeat(x.v, 2, 2)), lambda y, n, d: y.repeat_interleave(2, -1))
        matrix, line = out(x.v[0]), out(x.v[0, 0])
        for k in (0, 1, -1):
            r.case("diag", [matrix, k], out(np.diag(matrix.v, k)), lambda y, n: y.diag(k))
            r.case("diag", [line, k], out(np.diag(line.v, k)), lambda y, n: y.diag(k))
        r.case("argsort", [x], Tensor(sort(x.v, -1, False)[1], "int64"), lambda y: torch.sort(y, dim=-1, stable=True)[1])
        r.case("argsort", [x, 1, True], Tensor(sort(x.v, 0, True)[1], "int64"), lambda y, d, down: torch.sort(y, dim=0, descending=True, stable=True)[1])
        r.case("zeros_like", [x], filled((2, 3, 4), dtype), lambda y: torch.zeros_like(y))
        r.case("ones_like", [x], filled((2, 3, 4), dtype, 1), lambda y: torch.ones_like(y))
        r.case("full_like", [x, 7], filled((2, 3, 4), dtype, 7), lambda y, v: torch.full_like(y, 7))
        r.case("ones_like", [x, "float64"], filled((2, 3, 4), "float64", 1), lambda y, v: torch.ones_like(y, dtype=torch.float64))


def record_picking(r):
    for dtype in ANY:
        x = of_dtype((3, 4), dtype, "pick")
        rows = Tensor([2, 0, 2], "int64")
        for kind in ("int64", "int32"):
            ids = Tensor(rows.v, kind)
            r.case("index_select", [x, ids], Tensor(x.v[rows.v], dtype), lambda y, i: torch.index_select(y, 0, i), dim=1)
        columns = Tensor([3, 0], "int64")
        r.case("index_select", [x, columns], Tensor(x.v[:, columns.v], dtype), lambda y, i: torch.index_select(y, 1, i), dim=-1)
        ids = Tensor([[0, 3], [1, 1], [2, 0]], "int64")
        r.case("gather", [x, ids], Tensor(np.take_along_axis(x.v, ids.v, 1), dtype), lambda y, i: torch.gather(y, 1, i), dim=2)
        r.case("gather", [x, Tensor([[2, 0, 1, 1]], "int64")], Tensor(np.take_along_axis(x.v, np.array([[2, 0, 1, 1]]), 0), dtype),
               lambda y, i: torch.gather(y, 0, i), dim=1)
        mask = Tensor([[True, False, False, True], [False] * 4, [True] * 4], "bool")
        r.case("masked_select", [x, mask], Tensor(x.v[mask.v], dtype), lambda y, m: torch.masked_select(y, m))
        value, source = x.v.copy(), Tensor(x.v[::-1, :2], dtype)
        np.put_along_axis(value, np.array([[0, 3], [1, 2], [2, 0]]), source.v, 1)
        r.case("scatter", [x, Tensor([[0, 3], [1, 2], [2, 0]], "int64"), source], Tensor(value, dtype), lambda y, i, s: torch.scatter(y, 1, i, s), dim=2)
        if dtype in ("bool", "bfloat16", "float16", "uint8"):
            continue
        source = of_dtype((3, 2), dtype, "source")
        value = x.v.copy()
        for i in range(3):
            for j in range(2):
                value[i, ids.v[i, j]] += source.v[i, j]
        r.case("scatter_add", [x, ids, source], Tensor(value, dtype, raw=True), lambda y, i, s: torch.scatter_add(y, 1, i, s), dim=2,
               note="row 2 adds twice to one place")
        value = x.v.copy()
        for i, row in enumerate([2, 2]):
            for j in range(4):
                value[row, j] += x.v[i, j]
        r.case("scatter_add", [x, Tensor([[2] * 4, [2] * 4], "int64"), Tensor(x.v[:2], dtype)], Tensor(value, dtype, raw=True),
               lambda y, i, s: torch.scatter_add(y, 0, i, s), dim=1)
    x = normal((3, 4), name="none")
    none = filled((0,), "int64")
    r.case("index_select", [x, none], filled((0, 4)), lambda y, i: torch.index_select(y, 0, i), dim=1, note="empty")
    r.case("gather", [x, filled((0, 4), "int64")], filled((0, 4)), lambda y, i: torch.gather(y, 0, i), dim=1, note="empty")
    for kind in ("int64", "int32"):
        ids = Tensor([[2, 0], [1, 2]], kind)
        hot = (ids.v[..., None] == np.arange(4)).astype(np.int64)
        r.case("one_hot", [ids], Tensor(hot, "int64"), lambda i: torch.nn.functional.one_hot(i.long(), 4), classes=4)
    r.case("one_hot", [none], filled((0, 3), "int64"), lambda i: torch.nn.functional.one_hot(i, 3), classes=3, note="empty")


def sort(values, axis, descending):
    """Stable; nan counts as larger than everything."""
    v = np.moveaxis(values, axis, -1)
    order = np.empty(v.shape, np.int64)
    for place in np.ndindex(v.shape[:-1]):
        keys = [(1, 0) if x != x else (0, x) for x in v[place].tolist()]
        if descending:
            keys = [(-a, -b) for a, b in keys]
        order[place] = sorted(range(len(keys)), key=lambda i: keys[i])
    order = np.moveaxis(order, -1, axis)
    return np.take_along_axis(values, order, axis), order


def record_sorting(r):
    for dtype in FLOATS + HALVES + INTS:
        x = of_dtype((2, 3, 5), dtype, "sort")
        for dim, descending in ((-1, False), (2, True), (1, False)):
            if dtype not in ("float32", "int64") and dim != -1:
                continue
            values, order = sort(x.v, axes(dim), descending)
            more = dict({} if dim == -1 else {"dim": dim}, **({"descending": True} if descending else {}))
            r.case("sort", [x], [Tensor(values, dtype), Tensor(order, "int64")],
                   lambda y: torch.sort(y, dim=axes(dim), descending=descending, stable=True), **more)
    ties = Tensor([3, 1, 3, 1, 2, 3, 1], "int64")
    for dtype in ("int64", "float32"):
        for descending in (False, True):
            x = Tensor(ties.v, dtype)
            values, order = sort(x.v, 0, descending)
            r.case("sort", [x], [Tensor(values, dtype), Tensor(order, "int64")], lambda y: torch.sort(y, dim=0, descending=descending, stable=True),
                   note="ties keep their order", **({"descending": True} if descending else {}))
    nans = Tensor([2.0, NAN, -INF, INF, NAN, 0.0])
    for descending in (False, True):
        values, order = sort(nans.v, 0, descending)
        r.case("sort", [nans], [Tensor(values, raw=True), Tensor(order, "int64")], lambda y: torch.sort(y, dim=0, descending=descending, stable=True),
               note="nan counts as largest", **({"descending": True} if descending else {}))
    r.case("sort", [filled((2, 0))], [filled((2, 0)), filled((2, 0), "int64")], lambda y: torch.sort(y, 1)[:2], note="empty")
    wide = Tensor(np.array([2**53 + 1, 2**53, -(2**62), 2**53 + 2], np.int64), "int64")
    order = np.argsort(wide.v, kind="stable")
    r.case("sort", [wide], [Tensor(wide.v[order], "int64"), Tensor(order, "int64")], lambda y: torch.sort(y, 0)[:2], note="beyond a double's integers")

    for dtype in FLOATS + INTS[:2]:
        x = Tensor(np.random.default_rng(5).permutation(20).reshape(4, 5) * (0.25 if dtype in FLOATS else 1), dtype)
        for k, dim, largest in ((2, -1, True), (3, -1, False), (2, 1, True), (5, 2, True)):
            values, order = sort(x.v, axes(dim), largest)
            cut = [slice(None)] * 2
            cut[axes(dim)] = slice(0, k)
            more = dict({} if dim == -1 else {"dim": dim}, **({} if largest else {"largest": False}))
            r.case("topk", [x], [Tensor(values[tuple(cut)], dtype), Tensor(order[tuple(cut)], "int64")],
                   lambda y: torch.topk(y, k, axes(dim), largest), k=k, **more)
    values, order = sort(ties.v, 0, True)
    r.case("topk", [ties], [Tensor(values[:4], "int64"), Tensor(order[:4], "int64")], None, k=4, note="ties: the first come first (PyTorch leaves it open)")
    values, order = sort(nans.v, 0, True)
    r.case("topk", [nans], [Tensor(values[:3], raw=True), Tensor(order[:3], "int64")], None, k=3, note="nan counts as largest")


def record_counting(r):
    for dtype in ("int64", "int32", "float32", "float64", "uint8"):
        x = Tensor([[3, 1, 3], [7, 1, 3]], dtype)
        values, inverse, counts = np.unique(x.v, return_inverse=True, return_counts=True)
        r.case("unique", [x], [Tensor(values, dtype), Tensor(inverse.reshape(x.v.shape), "int64"), Tensor(counts, "int64")],
               lambda y: torch.unique(y, True, True, True))
    none = filled((0,), "int64")
    r.case("unique", [none], [none, none, none], lambda y: torch.unique(y, True, True, True), note="empty")
    wide = Tensor(np.array([2**53 + 1, 2**53, 2**53 + 1], np.int64), "int64")
    r.case("unique", [wide], [Tensor(np.array([2**53, 2**53 + 1], np.int64), "int64"), Tensor([1, 0, 1], "int64"), Tensor([1, 2], "int64")],
           lambda y: torch.unique(y, True, True, True), note="beyond a double's integers")
    for dtype in ("bool", "int64", "float32", "uint8"):
        x = Tensor([[0, 1, 2], [0, 0, 3]], dtype)
        r.case("nonzero", [x], Tensor(np.argwhere(x.v), "int64"), lambda y: torch.nonzero(y))
    r.case("nonzero", [Tensor([0.0, NAN, -0.0, 1.0])], Tensor([[1], [3]], "int64"), lambda y: torch.nonzero(y), note="nan is not 0")
    r.case("nonzero", [filled((2, 2))], filled((0, 2), "int64"), lambda y: torch.nonzero(y), note="none found")
    for kind in ("int64", "int32"):
        ids = Tensor([3, 0, 3, 1], kind)
        r.case("bincount", [ids], Tensor([1, 1, 0, 2], "int64"), lambda i: torch.bincount(i.long()))
        r.case("bincount", [ids], Tensor([1, 1, 0, 2, 0, 0], "int64"), lambda i: torch.bincount(i.long(), minlength=6), bins=6)
        weights = Tensor([0.5, 2.0, 0.25, -1.0])
        r.case("bincount", [ids, weights], Tensor([2.0, -1.0, 0.0, 0.75], "float64"), lambda i, w: torch.bincount(i.long(), w.double()))
    r.case("bincount", [none], filled((2,), "int64"), lambda i: torch.bincount(i, minlength=2), bins=2, note="empty")
    x = Tensor([1.0, NAN, 3.0])
    r.case("masked_select", [x, filled((3,), "bool")], filled((0,)), lambda y, m: torch.masked_select(y, m), note="none chosen")
    edges = Tensor([[1.0, 2.0, 3.0], [0.0, 5.0, 9.0]])
    x = Tensor([[0.5, 3.0], [5.0, 9.5]])
    found = np.stack([np.searchsorted(edges.v[i], x.v[i]) for i in range(2)])
    r.case("searchsorted", [edges, x], Tensor(found, "int64"), lambda e, y: torch.searchsorted(e, y), note="a line of edges for each row")
    for dtype in FLOATS + ("int64", "int32"):
        edges = Tensor([1, 3, 3, 5, 9], dtype)
        x = Tensor([[0, 1, 2], [3, 9, 10]], dtype)
        for right in (False, True):
            found = np.searchsorted(edges.v, x.v, side="right" if right else "left")
            r.case("searchsorted", [edges, x], Tensor(found, "int64"), lambda e, y: torch.searchsorted(e, y, right=right), **({"right": True} if right else {}))
    edges, x = Tensor([0.0, 1.0, INF]), Tensor([-INF, INF, 0.5])
    r.case("searchsorted", [edges, x], Tensor(np.searchsorted(edges.v, x.v), "int64"), lambda e, y: torch.searchsorted(e, y), note="inf")
    r.case("searchsorted", [filled((0,)), x], Tensor([0, 0, 0], "int64"), lambda e, y: torch.searchsorted(e, y), note="no edges")


def record(r):
    record_layout(r)
    record_composed(r)
    record_picking(r)
    record_sorting(r)
    record_counting(r)
