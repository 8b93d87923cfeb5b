#!/usr/bin/env python3
"""Prints results.json of bench/peers.sh as a table in Markdown, with what could not be measured and what each draws differently.

Usage: table.py RESULTS.json
"""
import sys

from peers import MEASURES, ahead, measured, read_results, value_of

SIZES_OF = {"node": "", "labor": " of LABOR"}  # measures whose batches are of other sizes; behind the rows' titles


def number(value):
    """Three digits, and no more zeros than they need."""
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


def cell_of_death(result):
    """What a trainer saw when a worker was killed."""
    outcome, seconds = result["outcome"], result.get("seconds", 0)
    waited = f"{1e3 * seconds:.0f} ms" if seconds < 1 else f"{seconds:.1f} s"
    if outcome == "hangs":
        return f"hangs: no batch for {seconds:.0f} s"
    if outcome == "error":
        return f"an error after {waited}"
    if outcome == "batches lost":
        return f"{result['expected_after'] - result['batches_after']} of {result['expected_after']} batches lost"
    return f"{outcome}; longest wait {waited}"


def cell(document, peer, measure):
    value = value_of(document, peer, measure)
    result = document["peers"][peer].get("measures", {}).get(measure, {})
    if measure == "kill" and "outcome" in result:
        return cell_of_death(result)
    if value is None:
        return "-"
    low, high = (MEASURES[measure].factor * end for end in result["spread"])
    spread = f" ({number(low)} to {number(high)})" if result["runs"] > 1 else ""
    size = f", {number(1e-6 * result['bytes_per_batch'])} MB" if "bytes_per_batch" in result else ""
    return f"{number(value)}{spread}{size}"


def plain_cell(document, peer, measure, key):
    result = document["peers"][peer].get("measures", {}).get(measure, {})
    return f"{result[key]:,.0f}" if key in result else "-"


def rows(document):
    peers = list(document["peers"])
    for measure in measured(document):
        unit = f", {MEASURES[measure].unit}" if MEASURES[measure].unit else ""
        times = ahead(document, measure)
        yield [MEASURES[measure].title + unit, *(cell(document, peer, measure) for peer in peers), f"{number(times)} times" if times else ""]
        if measure in SIZES_OF:
            for key, title in (("nodes_per_batch", "rows (nodes) a batch"), ("edges_per_batch", "edges a batch")):
                yield [title + SIZES_OF[measure], *(plain_cell(document, peer, measure, key) for peer in peers), ""]


def notes(document):
    """What the figures leave out: settings, what is missing and why, what each draws differently."""
    for peer, entry in document["peers"].items():
        if "missing" in entry:
            yield f"{entry['title']} could not be installed: {entry['missing']}."
            continue
        versions = ", ".join(f"{name} {version}" for name, version in entry.get("versions", {}).items())
        results = {measure: entry.get("measures", {}).get(measure, {"missing": "not measured"}) for measure in measured(document)}
        settings = "; ".join(f"{measure}: {result['setting']}" for measure, result in results.items()
                             if "setting" in result and result["setting"] != "as it is")
        words = [entry["title"] + (f" ({versions})" if versions else "") + ": " + entry["differs"]]
        if settings:
            words.append(f"Best settings: {settings}")
        for measure, result in results.items():
            if "missing" in result:
                words.append(f"No figure for {MEASURES[measure].title}: {result['missing']}")
            elif message := result.get("message"):
                words.append(f"The error: `{message}`")
        yield ". ".join(words) + "."
    if left_out := [MEASURES[measure].title for measure in MEASURES if measure not in measured(document)]:
        yield f"Not measured: {'; '.join(left_out)}."


def table(document):
    graph, machine = document["graph"], document["machine"]
    rounds = "one round" if document["rounds"] == 1 else f"medians of {document['rounds']} rounds by turns, smallest and largest in brackets"
    lines = [f"{graph['nodes']:,} nodes, {graph['edges']:,} edges, {graph['features']} float32, [{graph['fanouts']}], batch {graph['batch_size']}; "
             f"{machine['cpu']}, {machine['cores']} cores; {rounds}.", ""]
    header = ["", *(entry["title"] for entry in document["peers"].values()), "hopfeed and the best other"]
    lines += ["| " + " | ".join(header) + " |", "|---" * len(header) + "|"]
    lines += ["| " + " | ".join(text.replace("|", "\\|") for text in row) + " |" for row in rows(document)]
    return "\n".join([*lines, "", *(f"- {note}" for note in notes(document))])


if __name__ == "__main__":
    print(table(read_results(sys.argv, __doc__)))
