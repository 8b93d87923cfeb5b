#!/usr/bin/env python3
"""Tells what a run of quickstart.sh, hetero.sh or link_prediction.sh reached, from its summary.json, and checks it where asked to.

Usage: summary.py FILE [--epochs N] [--min-test-accuracy A] [--min-test-auc A] [--min-lead L]

  --epochs N              the run must have had N epochs
  --min-test-accuracy A   the model's test accuracy must be A or more
  --min-test-auc A        of links: the model's ROC-AUC on the test links must be A or more
  --min-lead L            it must lead the model on features alone, of links the one without the graph, by L or more

Prints a few lines, exits 0; or one line on stderr with what is wrong, and exits 1.
"""
import argparse
import json
import sys

TIMES = ("epochs", "epoch_seconds", "batches_per_s", "trainer_wait_fraction")
FIGURES = {"accuracy": ("test_accuracy", "valid_accuracy", "baseline_test_accuracy", *TIMES),
           "auc": ("test_auc", "valid_auc", "baseline_test_auc", *TIMES)}


def read(path):
    try:
        with open(path, encoding="utf-8") as file:
            summary = json.load(file)
    except OSError as error:
        sys.exit(f"{path}: {error.strerror}; run the example that writes it first")
    except ValueError as error:
        sys.exit(f"{path}: no valid JSON ({error}); remove it and run the example again")
    kind = "auc" if "edge_type" in summary else "accuracy"
    if missing := [name for name in FIGURES[kind] if not isinstance(summary.get(name), (int, float))]:
        sys.exit(f"{path}: lacks {', '.join(missing)}; remove it and run the example again")
    return summary, kind


def main():
    parser = argparse.ArgumentParser(add_help=False)
    parser.add_argument("file", nargs="?")
    parser.add_argument("--help", action="store_true")
    parser.add_argument("--epochs", type=int)
    parser.add_argument("--min-test-accuracy", type=float, default=0)
    parser.add_argument("--min-test-auc", type=float, default=0)
    parser.add_argument("--min-lead", type=float, default=-1)
    arguments = parser.parse_args()
    if arguments.help or not arguments.file:
        sys.exit(__doc__.strip())

    s, kind = read(arguments.file)
    name, least = ("ROC-AUC", arguments.min_test_auc) if kind == "auc" else ("accuracy", arguments.min_test_accuracy)
    test, baseline = s[f"test_{kind}"], s[f"baseline_test_{kind}"]
    if arguments.epochs is not None and s["epochs"] != arguments.epochs:
        sys.exit(f"{arguments.file}: has {s['epochs']} epochs, not {arguments.epochs}")
    if test < least:
        sys.exit(f"{arguments.file}: test {name} {test:.4f} is below {least}")
    if test - baseline < arguments.min_lead:
        sys.exit(f"{arguments.file}: the graph adds {test - baseline:.4f} to the test {name}, less than {arguments.min_lead}")
    alone = "the classifier without the graph reaches" if kind == "auc" else "features alone reach"
    print(f"Test {name} {test:.3f} after {s['epochs']} epochs (valid {s[f'valid_{kind}']:.3f}); {alone} {baseline:.3f}.")
    if "homogeneous_test_accuracy" in s:
        print(f"GraphSAGE without types reaches {s['homogeneous_test_accuracy']:.3f}, "
              f"at {s['homogeneous_epoch_seconds']:.1f} s per epoch.")
    if "without_test_accuracy" in s:
        print(f"Blind for some of the edge types (--without) the same model reaches {s['without_test_accuracy']:.3f}.")
    print(f"{s['epoch_seconds']:.1f} s per epoch, {s['batches_per_s']:.1f} batches/s, "
          f"trainers waited {100 * s['trainer_wait_fraction']:.0f}% of the time for data.")


if __name__ == "__main__":
    main()
