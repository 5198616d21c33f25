"""Records files and metric values made by other programs: safetensors (the reference package), npy (NumPy), AUC,
logloss and accuracy (scikit-learn). Writes formats.json beside itself. Needs numpy, safetensors, scikit-learn, ml_dtypes.

Tensors hold simple sequences, so that a spec can tell the right values without reading them from here."""
import io
import json
import os
import tempfile

import ml_dtypes
import numpy as np
import safetensors
import sklearn
from safetensors.numpy import save_file
from sklearn.metrics import accuracy_score, log_loss, roc_auc_score

HERE = os.path.dirname(os.path.abspath(__file__))


def ramp(shape, dtype):
    """Element i is i * 0.5 - 3 for floats, i otherwise; every third is true for bool."""
    i = np.arange(int(np.prod(shape)))
    kind = np.dtype(dtype)
    if kind == np.bool_:
        return (i % 3 == 0).reshape(shape)
    if kind.kind in "iu":
        return i.astype(kind).reshape(shape)
    return (i * 0.5 - 3).astype(kind).reshape(shape)


def safetensors_case():
    tensors = {
        "dense.weight": ramp((2, 3), np.float32),
        "dense.bias": ramp((3,), np.float32),
        "double": ramp((5,), np.float64),
        "half": ramp((4,), np.float16),
        "brain": ramp((4,), ml_dtypes.bfloat16),
        "ids": ramp((2, 2), np.int64),
        "rows": ramp((3,), np.int32),
        "bytes": ramp((7,), np.uint8),
        "mask": ramp((5,), np.bool_),
        "scalar": ramp((), np.float32),
        "empty": ramp((0, 4), np.float32),
        'quote " \\ tab\t é 😀': ramp((1,), np.float32),
        "short": ramp((2,), np.int16),
    }
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "x.safetensors")
        save_file(tensors, path, metadata={"made by": 'safetensors "reference"\n'})
        with open(path, "rb") as f:
            return f.read().hex()


def npy_cases():
    arrays = [
        ("float32", ramp((2, 3), "<f4")), ("big endian", ramp((2, 3), ">f8")), ("half", ramp((4,), "<f2")),
        ("fortran", np.asfortranarray(ramp((2, 3, 4), "<f4"))), ("big fortran", np.asfortranarray(ramp((3, 2), ">i4"))),
        ("int64", ramp((3,), "<i8")), ("int8", (ramp((4,), "i1") - 2).astype("i1")), ("uint8", ramp((4,), "u1")),
        ("int16", (ramp((4,), ">i2") - 2).astype(">i2")), ("uint16", ramp((4,), "<u2") + np.array(65530, "<u2")),
        ("uint32", ramp((4,), "<u4") + np.array(4294967290, "<u4")), ("uint64", ramp((4,), "<u8")),
        ("uint64 too large", np.array([1, 1 << 63], "<u8")), ("bool", ramp((5,), "?")), ("scalar", ramp((), "<f8")),
        ("empty", ramp((0, 3), "<f4")), ("text", np.array(["ab", "c"])), ("bytes", np.array([b"ab", b"c"])),
        ("complex", np.array([1 + 2j])), ("object", np.array([{"a": 1}], dtype=object)),
        ("structured", np.array([(1, 2.0)], dtype=[("a", "<i4"), ("b", "<f4")])), ("nine", ramp((1,) * 9, "<f4")),
        ("date", np.array(["2020-01-01"], dtype="M8[D]")),
    ]
    cases = []
    for name, array in arrays:
        buffer = io.BytesIO()
        np.save(buffer, array, allow_pickle=True)
        values = array.flatten().tolist() if array.dtype.kind in "fiub" and name != "uint64 too large" else []
        cases.append({"name": name, "hex": buffer.getvalue().hex(), "shape": list(array.shape), "values": values})
    for version in ((2, 0), (3, 0)):
        buffer = io.BytesIO()
        np.lib.format.write_array(buffer, ramp((2, 2), "<f4"), version=version)
        cases.append({"name": f"version {version[0]}", "hex": buffer.getvalue().hex(), "shape": [2, 2],
                      "values": ramp((2, 2), "<f4").flatten().tolist()})
    return cases


def lehmer(seed):
    """The generator that the spec repeats: exact in doubles."""
    while True:
        seed = seed * 16807 % 2147483647
        yield seed / 2147483647


def metric_rows(n, seed, steps):
    """Logits on a grid (so that many tie), labels that follow them, weights in eighths, some of them 0."""
    draw = lehmer(seed)
    logits, labels, weights = [], [], []
    for _ in range(n):
        u, v, w = next(draw), next(draw), next(draw)
        logits.append(np.floor(u * steps) / steps * 8 - 4)
        labels.append(1 if v < 0.2 + 0.1 * u else 0)
        weights.append(np.floor(w * 9) / 8)
    return np.array(logits), np.array(labels), np.array(weights)


def grouped_auc(labels, logits, groups):
    """The mean over groups of both classes, weighted by their rows."""
    total, rows = 0.0, 0
    for g in np.unique(groups):
        mine = groups == g
        if len(np.unique(labels[mine])) == 2:
            total += mine.sum() * roc_auc_score(labels[mine], logits[mine])
            rows += mine.sum()
    return total / rows


def metric_cases():
    cases = []
    for n, seed, steps in ((50, 11, 10), (20000, 12, 100), (20000, 13, 1000000)):
        logits, labels, weights = metric_rows(n, seed, steps)
        p = 1 / (1 + np.exp(-logits))
        cases.append({
            "n": n, "seed": seed, "steps": steps,
            "auc": roc_auc_score(labels, logits),
            "weighted_auc": roc_auc_score(labels, logits, sample_weight=weights),
            "float32_auc": roc_auc_score(labels, logits.astype(np.float32)),
            "logloss": log_loss(labels, p),
            "weighted_logloss": log_loss(labels, p, sample_weight=weights),
            "accuracy": accuracy_score(labels, logits > 0),
            "weighted_accuracy": accuracy_score(labels, logits > 0, sample_weight=weights),
            "calibration": p.sum() / labels.sum(),
            "grouped_auc": grouped_auc(labels, logits, np.arange(n) * 7919 % 37 - 18),
            "normalized_entropy": log_loss(labels, p) / log_loss(labels, np.full(n, labels.mean())),
        })
    return cases


def main():
    record = {
        "versions": {"numpy": np.__version__, "safetensors": safetensors.__version__, "scikit-learn": sklearn.__version__},
        "safetensors": safetensors_case(),
        "npy": npy_cases(),
        "metrics": metric_cases(),
    }
    with open(os.path.join(HERE, "formats.json"), "w") as f:
        json.dump(record, f, indent=1, ensure_ascii=False)
        f.write("\n")


if __name__ == "__main__":
    main()
