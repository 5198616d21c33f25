"""Cases of layers and losses: linear, embeddings, normalisation, interactions, and what a loss divides by."""
import math

import numpy as np

from golden import FLOATS, HALVES, Tensor, filled, integers, normal, torch
from ops_elementwise import erf, sigmoid, softplus

INF = float("inf")


def functional(name):
    return lambda *args, **named: getattr(torch.nn.functional, name)(*args, **named)


def record_linear(r):
    activations = {
        "relu": (lambda z: np.maximum(z, 0), lambda z: torch.relu(z)),
        "sigmoid": (sigmoid, lambda z: torch.sigmoid(z)),
        "tanh": (np.tanh, lambda z: torch.tanh(z)),
        "leaky_relu": (lambda z: np.where(z > 0, z, 0.01 * z), lambda z: torch.nn.functional.leaky_relu(z)),
    }
    for dtype in FLOATS + ("bfloat16",):
        for shape in ((4, 3), (3,), (2, 2, 3), (0, 3)):
            x, w, b = normal(shape, dtype, "x"), normal((5, 3), dtype, "w"), normal((5,), dtype, "b")
            value = x.v @ w.v.T
            r.case("linear", [x, w, b], Tensor(value + b.v, dtype, raw=True), functional("linear"))
            r.case("linear", [x, w], Tensor(value, dtype, raw=True), functional("linear"), note="no bias")
            if len(shape) == 2 and dtype in FLOATS:
                for name, (formula, twin) in activations.items():
                    r.case("linear", [x, w, b], Tensor(formula(value + b.v), dtype, raw=True),
                           lambda x, w, b: twin(torch.nn.functional.linear(x, w, b)), activation=name)


def bag(table, ids, offsets, mode, weights=None):
    ends = list(offsets[1:]) + [len(ids)]
    out = np.zeros((len(offsets), table.shape[1]))
    for i, (first, last) in enumerate(zip(offsets, ends)):
        rows = table[ids[first:last]]
        if weights is not None:
            rows = rows * weights[first:last, None]
        if last > first:
            out[i] = {"sum": rows.sum, "mean": rows.mean, "max": rows.max}[mode](0)
    return out


def record_embedding(r):
    for dtype in FLOATS + HALVES:
        table = normal((6, 3), dtype, "table")
        for kind in ("int64", "int32"):
            ids = Tensor([[5, 0], [2, 2], [1, 4]], kind)
            r.case("embedding", [ids, table], Tensor(table.v[ids.v], dtype), lambda i, t: torch.nn.functional.embedding(i, t))
    table = normal((6, 3), name="table")
    r.case("embedding", [filled((0, 2), "int64"), table], filled((0, 2, 3)), lambda i, t: torch.nn.functional.embedding(i, t), note="empty")
    r.case("embedding", [Tensor(4, "int64"), table], Tensor(table.v[4]), lambda i, t: torch.nn.functional.embedding(i, t), note="one id")
    for dtype in FLOATS:
        table, weights = normal((6, 3), dtype, "table"), normal((7,), dtype, "weights")
        for kind in ("int64", "int32"):
            ids, offsets = Tensor([1, 0, 5, 5, 2, 3, 1], kind), Tensor([0, 2, 2, 5, 7], kind)
            for mode in ("sum", "mean", "max"):
                r.case("embedding_bag", [ids, table, offsets], Tensor(bag(table.v, ids.v, offsets.v, mode), dtype, raw=True),
                       lambda i, t, o: torch.nn.functional.embedding_bag(i, t, o, mode=mode), note="bags 2 and 5 are empty", mode=mode)
            r.case("embedding_bag", [ids, table, offsets, weights], Tensor(bag(table.v, ids.v, offsets.v, "sum", weights.v), dtype, raw=True),
                   lambda i, t, o, w: torch.nn.functional.embedding_bag(i, t, o, mode="sum", per_sample_weights=w), mode="sum")
    table = normal((6, 3), name="table")
    none = filled((0,), "int64")
    ids = Tensor([[0, 5, 5], [2, 3, 0]], "int64")
    for mode, f in (("sum", np.sum), ("mean", np.mean), ("max", np.max)):
        more = {} if mode == "mean" else {"mode": mode}
        r.case("embedding_bag", [ids, table], Tensor(f(table.v[ids.v], 1), raw=True),
               lambda i, t: torch.nn.functional.embedding_bag(i, t, mode=mode), note="a bag for each row of ids", **more)
        counted = [f(table.v[[5, 5]], 0), f(table.v[[2, 3]], 0)]
        r.case("embedding_bag", [ids, table], Tensor(counted, raw=True),
               lambda i, t: torch.nn.functional.embedding_bag(i, t, mode=mode, padding_idx=0), note="padding does not count", padding=0, **more)
    r.case("embedding_bag", [none, table, filled((2,), "int64")], filled((2, 3)),
           lambda i, t, o: torch.nn.functional.embedding_bag(i, t, o, mode="sum"), mode="sum", note="all bags empty")
    for dtype in FLOATS:
        for shape in ((4, 3, 2), (2, 1, 3), (0, 3, 2), (3, 5, 10)):
            e = normal(shape, dtype, "fm")
            value = sum((e.v[:, i] * e.v[:, j]).sum(-1) for i in range(shape[1]) for j in range(i)) if shape[1] > 1 else np.zeros(shape[0])
            r.case("fm_interaction", [e], Tensor(value, dtype, raw=True),
                   lambda y: 0.5 * (y.sum(1) ** 2 - (y * y).sum(1)).sum(1), note="pair by pair")
            if shape[0]:
                r.case("fm_interaction", [Tensor(e.v.reshape(shape[0], -1), dtype)], Tensor(value, dtype, raw=True),
                       lambda y: 0.5 * (y.reshape(shape).sum(1) ** 2 - (y.reshape(shape) ** 2).sum(1)).sum(1), fields=shape[1])


def record_fields(r):
    """Three features of 4, 2 and 3 values in one table; a row is an embedding of 2 and, last, a linear weight."""
    sizes, offsets = Tensor([4, 2, 3], "int64"), Tensor([0, 4, 6], "int64")
    for dtype in FLOATS:
        table = normal((9, 3), dtype, "fields")
        for kind in ("int64", "int32"):
            for ids in (Tensor([[3, 0, 2], [0, 1, 0], [3, 1, 2], [1, 1, 1]], kind), filled((0, 3), kind)):
                rows = ids.v + offsets.v
                e, w = table.v[rows][:, :, :2], table.v[rows][:, :, 2]
                pairs = sum((e[:, i] * e[:, j]).sum(-1) for i in range(3) for j in range(i))
                out = lambda v: Tensor(v, dtype, raw=True)
                r.case("field_embedding", [ids, table, offsets, sizes], [out(e.reshape(len(e), 6)), out(w.sum(1)), out(pairs), out(e.sum(1))],
                       None, linear=True, fm=True)


def record_norms(r):
    for dtype in FLOATS + ("bfloat16",):
        for shape in ((3, 4), (2, 3, 5), (1, 4), (0, 4)):
            x, w, b = normal(shape, dtype, "ln"), normal(shape[-1:], dtype, "lnw"), normal(shape[-1:], dtype, "lnb")
            mean, var = x.v.mean(-1, keepdims=True), x.v.var(-1, keepdims=True)
            for eps in (1e-5, 0.1) if dtype in FLOATS else (1e-5,):
                hat = (x.v - mean) / np.sqrt(var + eps)
                more = {} if eps == 1e-5 else {"eps": eps}
                r.case("layer_norm", [x, w, b], Tensor(hat * w.v + b.v, dtype, raw=True),
                       lambda x, w, b: torch.nn.functional.layer_norm(x, x.shape[-1:], w, b, eps), **more)
                r.case("layer_norm", [x], Tensor(hat, dtype, raw=True), lambda x: torch.nn.functional.layer_norm(x, x.shape[-1:], None, None, eps), **more)
    for dtype in FLOATS:
        x, w, b = normal((2, 3, 5), dtype, "ln"), normal((3, 5), dtype, "lnw"), normal((3, 5), dtype, "lnb")
        hat = (x.v - x.v.mean((1, 2), keepdims=True)) / np.sqrt(x.v.var((1, 2), keepdims=True) + 1e-5)
        r.case("layer_norm", [x, w, b], Tensor(hat * w.v + b.v, dtype, raw=True),
               lambda x, w, b: torch.nn.functional.layer_norm(x, (3, 5), w, b), note="over the last two dims", dims=2)
        for shape in ((5, 3), (2, 3, 4)):
            x, w, b = normal(shape, dtype, "bn"), normal((3,), dtype, "bnw"), normal((3,), dtype, "bnb")
            over = (0,) if len(shape) == 2 else (0, 2)
            row = lambda v: v.reshape((1, 3) + (1,) * (len(shape) - 2))
            mean, var = x.v.mean(over), x.v.var(over)
            out = lambda v: Tensor(v, dtype, raw=True)
            batch = lambda x, w=None, b=None: [torch.nn.functional.batch_norm(x, None, None, w, b, True),
                                                                          x.mean(over), x.var(over, correction=0)]
            hat = (x.v - row(mean)) / np.sqrt(row(var) + 1e-5)
            r.case("batch_norm", [x, w, b], [out(hat * row(w.v) + row(b.v)), out(mean), out(var)], batch)
            r.case("batch_norm", [x], [out(hat), out(mean), out(var)], batch)
            m, v = normal((3,), dtype, "running_mean"), Tensor([0.5, 2.0, 1.25], dtype)
            for eps in (1e-5, 1e-3):
                hat = (x.v - row(m.v)) / np.sqrt(row(v.v) + eps)
                more = {} if eps == 1e-5 else {"eps": eps}
                r.case("batch_norm_eval", [x, m, v, w, b], out(hat * row(w.v) + row(b.v)),
                       lambda x, m, v, w, b: torch.nn.functional.batch_norm(x, m, v, w, b, False, eps=eps), **more)
            r.case("batch_norm_eval", [x, m, v], out(hat), lambda x, m, v: torch.nn.functional.batch_norm(x, m, v, eps=eps), eps=eps)
    x = Tensor([[1e4, 1e4 + 1, 1e4 + 2]])
    r.case("layer_norm", [x], Tensor((x.v - x.v.mean()) / np.sqrt(x.v.var() + 1e-5), raw=True),
           lambda x: torch.nn.functional.layer_norm(x, (3,)), note="a mean far above the spread")


def reduced(losses, how, count=None):
    return losses if how == "none" else losses.sum() if how == "sum" else losses.sum() / (losses.size if count is None else count)


def each_reduction(r, op, inputs, losses, dtype, twin, note="", count=None, **more):
    for how in ("mean", "sum", "none"):
        named = dict(more, **({} if how == "mean" else {"reduction": how}))
        r.case(op, inputs, Tensor(reduced(losses, how, count), dtype, raw=True),
               None if twin is None else lambda *xs: twin(*xs, reduction=how), note=note, **named)


def record_pointwise_losses(r):
    for dtype in FLOATS:
        z, y = Tensor([-3.0, -0.5, 0.0, 0.25, 4.0, 2.0], dtype), Tensor([0, 1, 1, 0, 1, 0.25], dtype)
        w = Tensor([1, 0.5, 2, 0, 1, 3], dtype)
        bce = softplus(z.v) - z.v * y.v
        f = functional("binary_cross_entropy_with_logits")
        each_reduction(r, "bce_with_logits", [z, y], bce, dtype, f)
        each_reduction(r, "bce_with_logits", [z, y, w], bce * w.v, dtype, f, note="weights multiply; the mean divides by the count")
        weighted = (1 - y.v) * z.v + (1 + 2 * y.v) * softplus(-z.v)
        each_reduction(r, "bce_with_logits", [z, y], weighted, dtype,
                       lambda z, y, reduction: f(z, y, pos_weight=torch.tensor(3.0, dtype=z.dtype), reduction=reduction), pos_weight=3)
        two, rows = normal((2, 3), dtype, "logits", 2.0), Tensor([[2.0], [0.5]], dtype)
        t = Tensor([[1, 0, 1], [0, 0, 1]], dtype)
        each_reduction(r, "bce_with_logits", [two, t, rows], (softplus(two.v) - two.v * t.v) * rows.v, dtype, f, note="a weight for each row")
        positives = Tensor([1.0, 2.0, 0.5], dtype)
        value = (1 - t.v) * two.v + (1 + (positives.v - 1) * t.v) * softplus(-two.v)
        ones = filled((2, 3), dtype, 1)
        each_reduction(r, "bce_with_logits", [two, t, ones, positives], value, dtype,
                       lambda z, y, w, p, reduction: f(z, y, w, pos_weight=p, reduction=reduction), note="pos_weight for each column")
        a, b = normal((2, 3), dtype, "prediction", 2.0), normal((2, 3), dtype, "target")
        d = a.v - b.v
        each_reduction(r, "mse_loss", [a, b], d * d, dtype, functional("mse_loss"))
        each_reduction(r, "l1_loss", [a, b], np.abs(d), dtype, functional("l1_loss"))
        for delta in (1.0, 0.3):
            huber = np.where(np.abs(d) <= delta, 0.5 * d * d, delta * (np.abs(d) - 0.5 * delta))
            each_reduction(r, "huber_loss", [a, b], huber, dtype,
                           lambda a, b, reduction: torch.nn.functional.huber_loss(a, b, reduction, delta), **({} if delta == 1.0 else {"delta": delta}))
        logs = Tensor(np.log([[0.2, 0.3, 0.5], [0.1, 0.8, 0.1]]), dtype)
        p = Tensor([[0.5, 0.25, 0.25], [0.0, 1.0, 0.0]], dtype)
        with np.errstate(all="ignore"):
            kl = np.where(p.v > 0, p.v * (np.log(p.v) - logs.v), 0.0)
        each_reduction(r, "kl_div", [logs, p], kl, dtype, functional("kl_div"))
        target = Tensor(np.log([[0.5, 0.25, 0.25], [0.1, 0.6, 0.3]]), dtype)
        both = np.exp(target.v) * (target.v - logs.v)
        each_reduction(r, "kl_div", [logs, target], both, dtype,
                       lambda a, b, reduction: torch.nn.functional.kl_div(a, b, reduction=reduction, log_target=True), log_target=True)
        r.case("kl_div", [logs, p], Tensor(kl.sum() / 2, dtype, raw=True), lambda a, b: torch.nn.functional.kl_div(a, b, reduction="batchmean"),
               reduction="batchmean")
    big = Tensor([500.0, -500.0, 500.0, -500.0])
    y = Tensor([1.0, 0.0, 0.0, 1.0])
    each_reduction(r, "bce_with_logits", [big, y], softplus(big.v) - big.v * y.v, "float32", functional("binary_cross_entropy_with_logits"),
                   note="logits beyond exp's range")


def record_class_losses(r):
    for dtype in FLOATS:
        z, w = normal((4, 3), dtype, "classes", 2.0), Tensor([1.0, 0.5, 2.0], dtype)
        top = z.v.max(1, keepdims=True)
        logs = z.v - top - np.log(np.exp(z.v - top).sum(1, keepdims=True))
        ce = functional("cross_entropy")
        for kind in ("int64", "int32"):
            y = Tensor([2, 0, 1, 2], kind)
            pick = -logs[np.arange(4), y.v]
            each_reduction(r, "cross_entropy", [z, y], pick, dtype, lambda z, y, reduction: ce(z, y.long(), reduction=reduction))
        y = Tensor([2, 0, 1, 2], "int64")
        for smooth in (0.1, 0.5):
            soft = (1 - smooth) * pick + smooth * -logs.mean(1)
            each_reduction(r, "cross_entropy", [z, y], soft, dtype, lambda z, y, reduction: ce(z, y, label_smoothing=smooth, reduction=reduction),
                           label_smoothing=smooth)
        for ignore in (-100, 1):
            part = Tensor([2, ignore, 0, ignore], "int64")
            losses = np.where(part.v == ignore, 0.0, -logs[np.arange(4), np.where(part.v == ignore, 0, part.v)])
            each_reduction(r, "cross_entropy", [z, part], losses, dtype, lambda z, y, reduction: ce(z, y, ignore_index=ignore, reduction=reduction),
                           note="ignored rows do not count", count=2, **({} if ignore == -100 else {"ignore_index": ignore}))
            smoothed = np.where(part.v == ignore, 0.0, 0.9 * losses + 0.1 * -logs.mean(1))
            each_reduction(r, "cross_entropy", [z, part], smoothed, dtype,
                           lambda z, y, reduction: ce(z, y, ignore_index=ignore, label_smoothing=0.1, reduction=reduction),
                           count=2, label_smoothing=0.1, **({} if ignore == -100 else {"ignore_index": ignore}))
        r.case("cross_entropy", [z, filled((4,), "int64", -100)], Tensor(0.0, dtype, raw=True), None, note="nothing takes part: 0, where PyTorch says nan")
        weighted = pick * w.v[y.v]
        r.case("cross_entropy", [z, y, w], Tensor(weighted.mean(), dtype, raw=True), lambda z, y, w: ce(z, y, w, reduction="none").mean(),
               note="class weights multiply; the mean divides by the count")
        r.case("cross_entropy", [z, y, w], Tensor(weighted.sum() / w.v[y.v].sum(), dtype, raw=True), lambda z, y, w: ce(z, y, w), normalize="weights")
        r.case("cross_entropy", [z, y, w], Tensor(weighted, dtype, raw=True), lambda z, y, w: ce(z, y, w, reduction="none"), reduction="none")
        given = Tensor(logs, dtype)
        for ignore in (-100, 1):
            part = Tensor([2, ignore, 0, 0], "int64")
            losses = np.where(part.v == ignore, 0.0, -given.v[np.arange(4), np.where(part.v == ignore, 0, part.v)])
            each_reduction(r, "nll_loss", [given, part], losses, dtype,
                           lambda z, y, reduction: torch.nn.functional.nll_loss(z, y, ignore_index=ignore, reduction=reduction),
                           count=3, **({} if ignore == -100 else {"ignore_index": ignore}))
        y = Tensor([2, 0, 1, 2], "int64")
        picked = -given.v[np.arange(4), y.v] * w.v[y.v]
        nll = functional("nll_loss")
        r.case("nll_loss", [given, y, w], Tensor(picked.mean(), dtype, raw=True), lambda z, y, w: nll(z, y, w, reduction="none").mean())
        r.case("nll_loss", [given, y, w], Tensor(picked.sum() / w.v[y.v].sum(), dtype, raw=True), lambda z, y, w: nll(z, y, w), normalize="weights")
    z = Tensor([[1000.0, 0.0], [-1000.0, 0.0]])
    r.case("cross_entropy", [z, Tensor([0, 0], "int64")], Tensor(500.0, raw=True), lambda z, y: torch.nn.functional.cross_entropy(z, y), note="large logits")


def record_dropout(r):
    for dtype in FLOATS + HALVES:
        x = normal((2, 3), dtype, "dropout")
        r.case("dropout", [x], Tensor(x.v, dtype), lambda y: torch.nn.functional.dropout(y, 0.0), p=0, note="nothing dropped")


def record(r):
    record_dropout(r)
    record_linear(r)
    record_embedding(r)
    record_fields(r)
    record_norms(r)
    record_pointwise_losses(r)
    record_class_losses(r)
