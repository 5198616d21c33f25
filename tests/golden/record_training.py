#!/usr/bin/env python3
"""Records training runs of PyTorch that the specs repeat: a small DeepFM and a small classifier, in float64 and float32.

Owns tests/golden/training/*.safetensors and training.json; README.md beside this file describes them. Needs PyTorch (any
2.x on a CPU) and nothing else; only to record again, the specs read the files. Everything here is written with torch's
plain tensor functions and torch.optim, so that the numbers owe nothing to the code under test.
"""
import json
import os
import struct

import torch
import torch.nn.functional as F

HERE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "training")
STEPS = 200
SNAPSHOTS = (0, 50, 100, 200)
PERMUTATIONS = 16

DEEPFM = dict(sizes=[13, 50, 7, 100, 31, 5], dim=4, hidden=[16, 8], batch=32, lr=1e-2, betas=[0.9, 0.999], eps=1e-8,
              table_l2=1e-2)
MLP = dict(inputs=10, hidden=[12, 8], classes=4, rows=320, batch=16)
MLP_RUNS = {
    "adam": dict(kind="adam", lr=1e-2, betas=[0.9, 0.999], eps=1e-8, weight_decay=0.0),
    "adam_l2": dict(kind="adam", lr=1e-2, betas=[0.9, 0.99], eps=1e-8, weight_decay=1e-2),
    "adamw": dict(kind="adamw", lr=1e-2, betas=[0.9, 0.999], eps=1e-8, weight_decay=5e-2),
    "sgd": dict(kind="sgd", lr=5e-2, momentum=0.0, nesterov=False, weight_decay=0.0),
    "momentum": dict(kind="sgd", lr=2e-2, momentum=0.9, nesterov=False, weight_decay=0.0),
    "nesterov": dict(kind="sgd", lr=2e-2, momentum=0.9, nesterov=True, weight_decay=1e-3),
    "clipped": dict(kind="sgd", lr=5e-2, momentum=0.9, nesterov=False, weight_decay=0.0, clip_norm=0.5),
    "adagrad": dict(kind="adagrad", lr=5e-2, eps=1e-10, weight_decay=0.0, initial_accumulator=0.0),
}


# ------------------------------------------------------------------------------------------------ files
def save_safetensors(name, tensors):
    """Writes the format itself (a JSON header, then the bytes), so that this script needs no second package."""
    types = {torch.float64: "F64", torch.float32: "F32", torch.int32: "I32", torch.int64: "I64"}
    header, body = {}, bytearray()
    for key in sorted(tensors):
        value = tensors[key].detach().contiguous()
        data = value.numpy().tobytes()
        header[key] = dict(dtype=types[value.dtype], shape=list(value.shape), data_offsets=[len(body), len(body) + len(data)])
        body += data
    head = json.dumps(header, separators=(",", ":")).encode()
    head += b" " * (-len(head) % 8)
    path = os.path.join(HERE, name)
    with open(path, "wb") as out:
        out.write(struct.pack("<Q", len(head)) + head + body)
    print("%-36s %7d bytes, %d tensors" % (name, os.path.getsize(path), len(tensors)))


# ------------------------------------------------------------------------------------------------ DeepFM
def deepfm_data():
    """ids [steps, batch, fields] counted from 0 inside each field, skewed so that most rows miss most batches; labels [steps, batch]."""
    gen = torch.Generator().manual_seed(20)
    ids = torch.empty(STEPS + 1, DEEPFM["batch"], len(DEEPFM["sizes"]), dtype=torch.int32)
    taste = [torch.randn(size, generator=gen, dtype=torch.float64) for size in DEEPFM["sizes"]]
    logit = torch.zeros(STEPS + 1, DEEPFM["batch"], dtype=torch.float64)
    for field, size in enumerate(DEEPFM["sizes"]):
        u = torch.rand(ids.shape[:2], generator=gen, dtype=torch.float64)
        column = (size * u * u).long().clamp(max=size - 1)
        ids[:, :, field] = column.int()
        logit += taste[field][column]
    logit += 1.5 * taste[1][ids[:, :, 1].long()] * taste[4][ids[:, :, 4].long()]
    labels = (torch.rand(logit.shape, generator=gen, dtype=torch.float64) < torch.sigmoid(logit)).float()
    return ids, labels


def deepfm_weights(dtype):
    """Stacked tables as ltrain keeps them: the fields' rows one after another. Rounded to float32, so both runs start alike."""
    gen = torch.Generator().manual_seed(21)
    rows, width = sum(DEEPFM["sizes"]), DEEPFM["dim"] * len(DEEPFM["sizes"])
    weights = {
        "table.embedding": torch.randn(rows, DEEPFM["dim"], generator=gen) * 0.1,
        "table.linear": torch.randn(rows, generator=gen) * 0.05,
        "bias": torch.zeros(1),
    }
    layers = DEEPFM["hidden"] + [1]
    for i, units in enumerate(layers):
        weights["mlp.%d.weight" % (i + 1)] = torch.randn(units, width, generator=gen) * (2.0 / (units + width)) ** 0.5
        weights["mlp.%d.bias" % (i + 1)] = torch.randn(units, generator=gen) * 0.01
        width = units
    return {name: value.to(dtype).clone().requires_grad_() for name, value in weights.items()}


def mlp_forward(weights, x, prefix, layers):
    for i in range(1, layers + 1):
        x = F.linear(x, weights["%s%d.weight" % (prefix, i)], weights["%s%d.bias" % (prefix, i)])
        if i < layers:
            x = torch.relu(x)
    return x


def deepfm_loss(weights, ids, labels, sparse):
    first = torch.tensor([sum(DEEPFM["sizes"][:f]) for f in range(len(DEEPFM["sizes"]))])
    rows = ids.long() + first                                                    # [batch, fields]
    e = F.embedding(rows, weights["table.embedding"], sparse=sparse)             # [batch, fields, dim]
    linear = weights["table.linear"]
    w = F.embedding(rows, linear if linear.dim() == 2 else linear.unsqueeze(1), sparse=sparse)  # [batch, fields, 1]
    total = e.sum(1)
    pairs = 0.5 * (total * total - (e * e).sum(1)).sum(1)
    deep = mlp_forward(weights, e.flatten(1), "mlp.", len(DEEPFM["hidden"]) + 1).squeeze(1)
    logit = weights["bias"] + w.squeeze(2).sum(1) + pairs + deep
    return F.binary_cross_entropy_with_logits(logit, labels)


def deepfm_run(dtype, update, ids, labels, order=None):
    """One free run. Returns losses [steps], the weights after it, and at the snapshot steps weights, loss and gradients."""
    weights = deepfm_weights(dtype)
    sparse = update.startswith("lazy")
    if sparse:  # a sparse gradient needs a leaf of two dimensions
        weights["table.linear"] = weights["table.linear"].detach().unsqueeze(1).requires_grad_()
    tables = [weights["table.embedding"], weights["table.linear"]]
    rest = [weights[name] for name in weights if not name.startswith("table.")]
    options = dict(lr=DEEPFM["lr"], betas=tuple(DEEPFM["betas"]), eps=DEEPFM["eps"])
    decay = DEEPFM["table_l2"] if update.endswith("_l2") else 0.0
    if sparse:
        optimizers = [torch.optim.SparseAdam(tables, **options), torch.optim.Adam(rest, **options)]
    else:
        optimizers = [torch.optim.Adam([dict(params=tables, weight_decay=decay), dict(params=rest)], **options)]
    losses, shots = torch.empty(STEPS, dtype=dtype), {}
    for step in range(STEPS + 1):
        pick = torch.arange(DEEPFM["batch"]) if order is None else order[step]
        loss = deepfm_loss(weights, ids[step][pick], labels[step][pick].to(dtype), sparse)
        for value in weights.values():
            value.grad = None
        loss.backward()
        if step in SNAPSHOTS and order is None:
            shots[step] = (loss.detach().clone(), {n: v.detach().clone() for n, v in weights.items()},
                           {n: (v.grad.to_dense() if v.grad.is_sparse else v.grad).clone() for n, v in weights.items()})
        if step == STEPS:
            break
        losses[step] = loss.detach()
        if sparse:
            for table in tables:
                table.grad = table.grad.coalesce()
                # L2 over the rows of the batch: l2 * row is added once to each row that the batch uses.
                if decay:
                    touched = table.grad.indices()[0]
                    values = table.grad.values() + decay * table.detach()[touched]
                    table.grad = torch.sparse_coo_tensor(table.grad.indices(), values, table.shape,
                                                         is_coalesced=True, check_invariants=False)
        for optimizer in optimizers:
            optimizer.step()
    final = {name: value.detach().clone() for name, value in weights.items()}
    for group in [final] + [part for shot in shots.values() for part in shot[1:]]:
        group["table.linear"] = group["table.linear"].reshape(-1)
    return losses, final, shots


def record_deepfm():
    ids, labels = deepfm_data()
    out = {"ids": ids, "labels": labels}
    start = deepfm_weights(torch.float64)
    out.update({"init." + name: value for name, value in start.items()})
    for update in ("exact", "lazy", "exact_l2", "lazy_l2"):
        losses, final, _ = deepfm_run(torch.float64, update, ids, labels)
        out[update + ".losses"] = losses
        out.update({update + ".final." + name: value for name, value in final.items()})
        print("deepfm %-8s loss %.6f -> %.6f" % (update, losses[:10].mean(), losses[-10:].mean()))
    save_safetensors("deepfm_float64.safetensors", out)

    out = {"ids": ids, "labels": labels}
    out.update({"init." + name: value for name, value in deepfm_weights(torch.float32).items()})
    drift = {}
    for update in ("exact", "lazy"):
        losses, _, shots = deepfm_run(torch.float32, update, ids, labels)
        out[update + ".losses"] = losses
        if update == "exact":
            for step, (loss, weights, grads) in shots.items():
                out["step%d.loss" % step] = loss.reshape(1)
                out.update({"step%d.weight.%s" % (step, name): value for name, value in weights.items()})
                out.update({"step%d.grad.%s" % (step, name): value for name, value in grads.items()})
        drift[update] = record_drift(lambda order: deepfm_run(torch.float32, update, ids, labels, order)[0], losses,
                                     DEEPFM["batch"])
        out[update + ".drift"] = drift[update]
        print("deepfm float32 %s: own drift by permuted rows %.3g" % (update, drift[update].max()))
    save_safetensors("deepfm_float32.safetensors", out)
    return {name: float(value.max()) for name, value in drift.items()}


def record_drift(run, losses, batch):
    """Largest |loss - loss of a permuted run| at each step, over PERMUTATIONS runs whose batches hold the same rows in another order."""
    worst = torch.zeros(STEPS, dtype=torch.float32)
    for seed in range(PERMUTATIONS):
        gen = torch.Generator().manual_seed(100 + seed)
        order = [torch.randperm(batch, generator=gen) for _ in range(STEPS + 1)]
        worst = torch.maximum(worst, (run(order) - losses).abs())
    return worst


# ------------------------------------------------------------------------------------------------ classifier
def mlp_data():
    """x [rows, inputs] (rounded to float32) and targets [rows]; step k reads rows k * batch .. k * batch + batch - 1, modulo rows."""
    gen = torch.Generator().manual_seed(30)
    x = torch.randn(MLP["rows"], MLP["inputs"], generator=gen)
    a = torch.randn(MLP["inputs"], MLP["classes"], generator=gen)
    noise = torch.randn(MLP["rows"], MLP["classes"], generator=gen)
    return x, (torch.sin(x) @ a + noise).argmax(1)


def mlp_weights(dtype):
    gen = torch.Generator().manual_seed(31)
    weights, width = {}, MLP["inputs"]
    for i, units in enumerate(MLP["hidden"] + [MLP["classes"]]):
        weights["%d.weight" % (i + 1)] = torch.randn(units, width, generator=gen) * (2.0 / width) ** 0.5
        weights["%d.bias" % (i + 1)] = torch.randn(units, generator=gen) * 0.01
        width = units
    return {name: value.to(dtype).clone().requires_grad_() for name, value in weights.items()}


def make_optimizer(options, params):
    kind = options["kind"]
    decay = options["weight_decay"]
    if kind == "adam":
        return torch.optim.Adam(params, options["lr"], tuple(options["betas"]), options["eps"], decay)
    if kind == "adamw":
        return torch.optim.AdamW(params, options["lr"], tuple(options["betas"]), options["eps"], decay)
    if kind == "adagrad":
        return torch.optim.Adagrad(params, options["lr"], 0, decay, options["initial_accumulator"], options["eps"])
    return torch.optim.SGD(params, options["lr"], options["momentum"], 0, decay, options["nesterov"])


def mlp_run(dtype, options, x, targets, order=None):
    weights = mlp_weights(dtype)
    optimizer = make_optimizer(options, list(weights.values()))
    losses, shots = torch.empty(STEPS, dtype=dtype), {}
    for step in range(STEPS + 1):
        rows = (torch.arange(MLP["batch"]) + step * MLP["batch"]) % MLP["rows"]
        rows = rows if order is None else rows[order[step]]
        logits = mlp_forward(weights, x[rows].to(dtype), "", len(MLP["hidden"]) + 1)
        loss = F.cross_entropy(logits, targets[rows])
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        if step in SNAPSHOTS and order is None:
            shots[step] = (loss.detach().clone(), {n: v.detach().clone() for n, v in weights.items()},
                           {n: v.grad.clone() for n, v in weights.items()})
        if step == STEPS:
            break
        losses[step] = loss.detach()
        if "clip_norm" in options:
            torch.nn.utils.clip_grad_norm_(list(weights.values()), options["clip_norm"])
        optimizer.step()
    return losses, {name: value.detach().clone() for name, value in weights.items()}, shots


def record_mlp():
    x, targets = mlp_data()
    out = {"x": x, "targets": targets}
    out.update({"init." + name: value for name, value in mlp_weights(torch.float64).items()})
    for run, options in MLP_RUNS.items():
        losses, final, _ = mlp_run(torch.float64, options, x, targets)
        out[run + ".losses"] = losses
        out.update({run + ".final." + name: value for name, value in final.items()})
        print("mlp %-8s loss %.6f -> %.6f" % (run, losses[:10].mean(), losses[-10:].mean()))
    save_safetensors("mlp_float64.safetensors", out)

    out = {"x": x, "targets": targets}
    out.update({"init." + name: value for name, value in mlp_weights(torch.float32).items()})
    losses, _, shots = mlp_run(torch.float32, MLP_RUNS["adam"], x, targets)
    out["adam.losses"] = losses
    for step, (loss, weights, grads) in shots.items():
        out["step%d.loss" % step] = loss.reshape(1)
        out.update({"step%d.weight.%s" % (step, name): value for name, value in weights.items()})
        out.update({"step%d.grad.%s" % (step, name): value for name, value in grads.items()})
    drift = record_drift(lambda order: mlp_run(torch.float32, MLP_RUNS["adam"], x, targets, order)[0], losses, MLP["batch"])
    out["adam.drift"] = drift
    print("mlp float32: own drift by permuted rows %.3g" % drift.max())
    save_safetensors("mlp_float32.safetensors", out)
    return {"adam": float(drift.max())}


def main():
    torch.set_num_threads(1)
    os.makedirs(HERE, exist_ok=True)
    drift = {"deepfm": record_deepfm(), "mlp": record_mlp()}
    about = dict(recorded_with="PyTorch " + torch.__version__.split("+")[0], steps=STEPS, snapshots=list(SNAPSHOTS),
                 deepfm=DEEPFM, mlp=dict(MLP, runs=MLP_RUNS), drift=drift)
    with open(os.path.join(HERE, "training.json"), "w") as out:
        json.dump(about, out, indent=2, sort_keys=True)
        out.write("\n")


if __name__ == "__main__":
    main()
