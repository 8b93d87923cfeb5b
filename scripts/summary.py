#!/usr/bin/env python3
"""Tells what a run of quickstart.sh or hetero.sh reached, from its summary.json, and checks it where asked to.

Usage: summary.py FILE [--epochs N] [--min-test-accuracy A] [--min-lead L]

  --epochs N              the run must have had N epochs
  --min-test-accuracy A   the model's test accuracy must be A or more
  --min-lead L            it must lead the model on features alone by L or more

Prints a few lines, exits 0; or one line on stderr with what is wrong, and exits 1.
"""
import argparse
import json
import sys

FIGURES = ("test_accuracy", "valid_accuracy", "baseline_test_accuracy", "epochs", "epoch_seconds", "batches_per_s",
           "trainer_wait_fraction")


def read(path):
    try:
        with open(path, encoding="utf-8") as file:
            summary = json.load(file)
    except OSError as error:
        sys.exit(f"{path}: {error.strerror}; run the example that writes it first")
    except ValueError as error:
        sys.exit(f"{path}: no valid JSON ({error}); remove it and run the example again")
    if missing := [name for name in FIGURES if not isinstance(summary.get(name), (int, float))]:
        sys.exit(f"{path}: lacks {', '.join(missing)}; remove it and run the example again")
    return summary


def main():
    parser = argparse.ArgumentParser(add_help=False)
    parser.add_argument("file", nargs="?")
    parser.add_argument("--help", action="store_true")
    parser.add_argument("--epochs", type=int)
    parser.add_argument("--min-test-accuracy", type=float, default=0)
    parser.add_argument("--min-lead", type=float, default=-1)
    arguments = parser.parse_args()
    if arguments.help or not arguments.file:
        sys.exit(__doc__.strip())

    s = read(arguments.file)
    lead = s["test_accuracy"] - s["baseline_test_accuracy"]
    if arguments.epochs is not None and s["epochs"] != arguments.epochs:
        sys.exit(f"{arguments.file}: has {s['epochs']} epochs, not {arguments.epochs}")
    if s["test_accuracy"] < arguments.min_test_accuracy:
        sys.exit(f"{arguments.file}: test accuracy {s['test_accuracy']:.4f} is below {arguments.min_test_accuracy}")
    if lead < arguments.min_lead:
        sys.exit(f"{arguments.file}: the graph adds {lead:.4f} to the features' test accuracy, less than {arguments.min_lead}")
    print(f"Test accuracy {s['test_accuracy']:.3f} after {s['epochs']} epochs (valid {s['valid_accuracy']:.3f}); "
          f"features alone reach {s['baseline_test_accuracy']:.3f}.")
    if "homogeneous_test_accuracy" in s:
        print(f"GraphSAGE without types reaches {s['homogeneous_test_accuracy']:.3f}, "
              f"at {s['homogeneous_epoch_seconds']:.1f} s per epoch.")
    if "without_test_accuracy" in s:
        print(f"Blind for some of the edge types (--without) the same model reaches {s['without_test_accuracy']:.3f}.")
    print(f"{s['epoch_seconds']:.1f} s per epoch, {s['batches_per_s']:.1f} batches/s, "
          f"trainers waited {100 * s['trainer_wait_fraction']:.0f}% of the time for data.")


if __name__ == "__main__":
    main()
