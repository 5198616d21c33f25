#!/usr/bin/env python3
"""Records results of ltrain's operators by NumPy formulas in float64: tests/golden/ops.json.

The formulas are in ops_*.py; README.md beside this file describes the JSON. Where PyTorch is installed every case that has
a twin there is compared with it, and the file is written only when all agree.
"""
import os
import sys

import golden
import ops_create
import ops_elementwise
import ops_nn
import ops_reduce
import ops_shape

OUT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "ops.json")


def main():
    recorder = golden.Recorder()
    for family in (ops_create, ops_elementwise, ops_reduce, ops_shape, ops_nn):
        family.record(recorder)
    names = sorted({case["op"] for case in recorder.cases})
    print("%d cases of %d operators, %d compared with PyTorch" % (len(recorder.cases), len(names), recorder.compared))
    if recorder.bad:
        print("\n".join(recorder.bad))
        sys.exit("%d cases disagree: %s not written" % (len(recorder.bad), OUT))
    recorder.save(OUT)
    print("%s: %d bytes" % (OUT, os.path.getsize(OUT)))


if __name__ == "__main__":
    main()
