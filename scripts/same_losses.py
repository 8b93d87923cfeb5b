#!/usr/bin/env python3
"""Compares the losses of two runs of node_classification, which have to be the same to the last bit.

Usage: same_losses.py SUMMARY OTHER WHAT     WHAT the other is, for what is printed: "worker mode", "one machine"

Prints what the first run reached, exits 0; or each figure that differs, and exits 1.
"""
import json
import sys


def main():
    if len(sys.argv) != 4:
        sys.exit(__doc__.strip())
    here, there = (json.load(open(path, encoding="utf-8")) for path in sys.argv[1:3])
    what, same = sys.argv[3], True
    for rows in ("epoch_rows", "baseline_epoch_rows"):
        for mine, other in zip(here[rows], there[rows], strict=True):
            for figure in ("loss", "sampled_valid_accuracy"):
                if mine[figure] != other[figure]:
                    same = False
                    print(f"{rows}, epoch {mine['epoch']}: {figure} {mine[figure]!r}, by {what} {other[figure]!r}")
    if same:
        best = here["epoch_rows"][here["best_epoch"]]
        print(f"Valid accuracy {best['sampled_valid_accuracy']:.3f} (sampled) after {here['epochs']} epochs. All losses of both "
              f"models are those of {what}, to the last bit.")
        print(f"{here['epoch_seconds']:.2f} s per epoch, {here['batches_per_s']:.1f} batches/s, waited "
              f"{100 * here['trainer_wait_fraction']:.0f}% of the time; {what}: {there['epoch_seconds']:.2f} s, "
              f"{there['batches_per_s']:.1f} batches/s, {100 * there['trainer_wait_fraction']:.0f}%.")
    sys.exit(not same)


if __name__ == "__main__":
    main()
