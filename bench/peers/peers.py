"""Who is measured, with which settings, and what each draws differently: what measure.py, table.py and chart.py share."""
import json
import sys
from typing import NamedTuple


class Setting(NamedTuple):
    name: str
    arguments: tuple = ()  # of the loader's program
    memory_kept: bool = False


class Peer(NamedTuple):
    title: str
    settings: dict  # measure -> settings to try; a measure that is not there is `absent`
    absent: dict    # measure -> why
    differs: str


class Measure(NamedTuple):
    title: str
    key: str       # the headline
    unit: str
    factor: float  # from the key to the unit
    more_is_better: bool = True


# malloc that gives no pages back and never maps a block of its own: fresh pages cost a sampler of vectors more than its draws.
MEMORY_KEPT = {"MALLOC_MMAP_MAX_": "0", "MALLOC_TRIM_THRESHOLD_": "17179869184", "MALLOC_TOP_PAD_": "268435456", "GLIBC_TUNABLES": "glibc.malloc.hugetlb=1"}

MEASURES = {
    "node": Measure("node seeds", "edges_per_cpu_s", "M edges/s of a core", 1e-6),
    "link": Measure("link seeds, one negative each", "edges_per_cpu_s", "M edges/s of a core", 1e-6),
    "weighted": Measure("by weight", "edges_per_cpu_s", "M edges/s of a core", 1e-6),
    "labor": Measure("layer-dependent (LABOR)", "edges_per_cpu_s", "M edges/s of a core", 1e-6),
    "hetero": Measure("3 node types, 6 edge types", "edges_per_cpu_s", "M edges/s of a core", 1e-6),
    "loader": Measure("loader, features, two workers", "batches_per_s", "batches/s", 1),
    "handover": Measure("a batch handed over", "handover_us", "ms", 1e-3, more_is_better=False),
    "kill": Measure("a worker is killed (SIGKILL)", "outcome", "", 1),
}


def set_to(**settings):
    return tuple(f"--set={key}={value}" for key, value in settings.items())


def each(measures, settings):
    return dict.fromkeys(measures, settings)


READS_FEATURES = (Setting("workers read the features", set_to(gather="worker")), Setting("workers read the features, memory kept", set_to(gather="worker"), True),
                  Setting("the trainer reads the features, memory kept", set_to(gather="trainer"), True))
PLAIN_OR_KEPT = (Setting("as it is"), Setting("memory kept", memory_kept=True))
GRAPHBOLT_SAMPLER = (Setting("int32 ids, memory kept", set_to(ids="int32"), True), Setting("int64 ids, memory kept", set_to(ids="int64"), True),
                     Setting("int64 ids", set_to(ids="int64")))

PEERS = {
    "hopfeed": Peer(
        "hopfeed",
        each(MEASURES, (Setting("as it is"),)),
        {},
        "exact draws without replacement, local ids alone (its other arrays are part of the loader's batches). Its loader's batches also hold labels, original ids and counts"),
    "pyglib": Peer(
        "PyG, pyg-lib's sampler",
        {**each(("node", "link", "weighted", "hetero"), PLAIN_OR_KEPT), "loader": READS_FEATURES, **each(("handover", "kill"), READS_FEATURES[:1])},
        {"labor": "PyG has no LABOR"},
        "its sampler is compiled from the sources that --pyg-lib names, since PyPI has no wheel of pyg-lib; it also gives edge ids; negatives are random pairs, which "
        "may be edges; a batch is handed over as its workers leave it, features in shared memory already"),
    "pyg": Peer(
        "PyG, torch-sparse's sampler",
        {**each(("node", "link", "hetero"), PLAIN_OR_KEPT),
         "loader": READS_FEATURES, **each(("handover", "kill"), READS_FEATURES[:1])},
        {"weighted": "only in pyg-lib, which has no wheel on PyPI", "labor": "PyG has no LABOR"},
        "its sampler on PyPI is torch-sparse's, not pyg-lib's; it also gives edge ids; negatives are random pairs, which may be edges; a batch is handed over as its "
        "workers leave it, features in shared memory already"),
    "graphbolt": Peer(
        "GraphBolt",
        {**each(("node", "link", "weighted", "labor", "hetero"), GRAPHBOLT_SAMPLER),
         "loader": (Setting("two threads in the trainer, memory kept", set_to(ids="int32", threads=2), True),
                    Setting("one thread in the trainer, memory kept", set_to(ids="int32", threads=1), True),
                    Setting("no worker processes, two threads, memory kept", set_to(ids="int32", threads=2, processes=0), True),
                    Setting("two threads in the trainer", set_to(ids="int64", threads=2))),
         "handover": PLAIN_OR_KEPT,
         "kill": (Setting("two threads in the trainer", set_to(threads=2)),)},
        {},
        "each hop draws again for all nodes so far, so a batch has more edges; its LABOR takes exactly the fanout of a longer row, hopfeed's so many on average; "
        "negatives share the source of their link, so a batch of links has three ends each and not four; features are read in the trainer, its workers hand none over: the time is "
        "of a tensor of this size through the loader that it uses"),
    "glt": Peer(
        "graphlearn-torch",
        {**each(("node", "link", "weighted", "hetero"), PLAIN_OR_KEPT),
         "loader": (Setting("one batch under way", set_to(concurrency=1)), Setting("one batch under way, memory kept", set_to(concurrency=1), True),
                    Setting("four batches under way, memory kept", set_to(concurrency=4), True)),
         **each(("handover", "kill"), (Setting("as it is"),))},
        {"labor": "graphlearn-torch has no LABOR"},
        "draws with replacement on the CPU where a row is longer than the fanout, so a neighbour may come twice; negatives are tried a few times not to be edges"),
}


def program_of(peer):
    """What measures a loader; PyG's takes the sampler that lies in its environment."""
    return f"peer_{'pyg' if peer == 'pyglib' else peer}.py"


def read_results(argv, doc):
    """The document that measure.py wrote, named on a program's command line; or one line that says what is wrong with it."""
    program = argv[0].rsplit("/", 1)[-1]
    if len(argv) != 2 or argv[1] in ("--help", "-h"):
        print(doc.strip(), file=sys.stdout if len(argv) == 2 else sys.stderr)
        sys.exit(0 if len(argv) == 2 else 2)
    try:
        with open(argv[1], encoding="utf-8") as file:
            document = json.load(file)
    except OSError as error:
        sys.exit(f"{program}: cannot read '{argv[1]}': {error.strerror}; name the results.json of bench/peers.sh")
    except ValueError:
        sys.exit(f"{program}: '{argv[1]}' is no JSON; name the results.json of bench/peers.sh")
    if not isinstance(document, dict) or document.get("format") != "hopfeed-peers" or document.get("version") != 1:
        sys.exit(f"{program}: '{argv[1]}' is not what bench/peers.sh writes; name its results.json")
    return document


def value_of(document, peer, measure):
    """The headline in its unit, or None."""
    result = document["peers"][peer].get("measures", {}).get(measure, {})
    key = MEASURES[measure].key
    return result[key] * MEASURES[measure].factor if isinstance(result.get(key), (int, float)) else None


def measured(document):
    """The measures that somebody ran: a run may leave some out, or be older than one."""
    return [measure for measure in MEASURES if any(measure in entry.get("measures", {}) for entry in document["peers"].values())]


def why_missing(document, peer, measure):
    entry = document["peers"][peer]
    return entry.get("missing") or entry.get("measures", {}).get(measure, {}).get("missing", "not measured")


def ahead(document, measure):
    """How many times better hopfeed is than the best other loader, or None."""
    ours = value_of(document, "hopfeed", measure) if "hopfeed" in document["peers"] else None
    theirs = [value for peer in document["peers"] if peer != "hopfeed" and (value := value_of(document, peer, measure)) is not None]
    if ours is None or not theirs:
        return None
    if MEASURES[measure].more_is_better:
        return ours / max(theirs) if max(theirs) > 0 else None
    return min(theirs) / ours if ours > 0 else None
