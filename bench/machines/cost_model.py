"""What a batch over M machines costs: questions and bytes counted as the code asks and docs/protocol.md lays them out, CPU and memory
from costs that were measured on one and two machines. No result of more machines is in it.

The graph is cut at random into as many partitions as there are machines, so of any set of rows that is chosen without a look at the cut
(M - 1) / M lie elsewhere; and a batch is the same bytes whatever the cut, so that no number here hangs on where things lie.
"""
import dataclasses
import math

FRAME = 24 + 8  # header, and the checksum of a question or an answer
QUESTION, ANSWER = 16, 8  # how any question begins, and any answer
DRAW, SECTION = 64, 16  # of a question for a hop before its section, and of a section there and in the answer
IN_ORDER = 4  # bytes of zeros behind an array that ends anywhere, in the mean: arrays begin at multiples of 8
SEGMENT, SEGMENT_HEADS = 1448, 66  # payload of a full TCP segment, and what Ethernet, IP and TCP put before it


@dataclasses.dataclass
class Shape:
    """What a batch has, whoever makes it."""
    seeds: float
    rows: list[float]  # that a hop expands: the nodes that the hop before was the first to find
    edges: list[float]  # that it draws of them
    nodes: float  # in all
    known_by: dict[int, float]  # of the nodes: the share that has edges to so many other nodes

    @property
    def drawn(self):
        return sum(self.edges)

    @property
    def expanded(self):
        return sum(self.rows)


@dataclasses.dataclass
class Deployment:
    machines: int
    here: int = 1  # partitions on the machine that makes the batch, of `machines`
    sharded: bool = True
    given: bool = True  # seeds are given; else they are a split's
    id_bytes: int = 4  # 8 from 2^31 nodes on
    edge_id_bytes: int = 0
    feature_bytes: tuple = ()  # of a row of each attribute
    servers: int = 0  # that have the partitions elsewhere; 0: one each

    @property
    def elsewhere(self):
        return (self.machines - self.here) / self.machines

    def asked(self, things):
        """Partitions elsewhere that have one at least of so many things, in the mean."""
        return (self.machines - self.here) * (1 - (1 - 1 / self.machines) ** things) if self.machines > 1 else 0.0

    def contacted(self, things):
        """Servers that have one at least."""
        servers = self.servers or self.machines - self.here
        return servers * (1 - (1 - self.elsewhere / servers) ** things) if servers else 0.0


@dataclasses.dataclass
class Traffic:
    """Of a batch, from the machine that makes it to all others and back."""
    questions: float = 0
    asked_bytes: float = 0  # payloads of questions
    answered_bytes: float = 0
    rounds: int = 0  # waits, one behind the other
    contacts: float = 0  # servers that are asked, of each round
    rows: float = 0  # that others draw
    edges: float = 0
    feature_rows: float = 0
    ids: float = 0  # that are asked for: of seeds, and of nodes behind the draws
    most_at_once: float = 0  # questions of a round

    def add(self, questions, asked, answered):
        self.questions += questions
        self.most_at_once = max(self.most_at_once, questions)
        self.asked_bytes += asked
        self.answered_bytes += answered

    @property
    def bytes(self):
        """On the connections, with frames."""
        return self.asked_bytes + self.answered_bytes + 2 * FRAME * self.questions

    @property
    def bytes_in(self):
        return self.answered_bytes + FRAME * self.questions


def count_width(most):
    return 1 if most <= 0xFF else 2 if most <= 0xFFFF else 4


def share_of_unknown(shape, deployment):
    """Of a batch's nodes, those whose original ids nobody here knows: they lie elsewhere, and so do all that they have edges to."""
    return sum(share * deployment.elsewhere ** (1 + to) for to, share in shape.known_by.items())


def ask_for_seeds(shape, deployment, traffic):
    n = shape.seeds * deployment.elsewhere
    q = deployment.asked(shape.seeds)
    if not deployment.sharded or q == 0:
        return
    columns = 1 if deployment.given else 2  # a split's entries are both ids
    head = 8 if deployment.given else 16
    traffic.add(q, q * (QUESTION + head + IN_ORDER) + 4 * n, q * (ANSWER + columns * IN_ORDER) + columns * deployment.id_bytes * n)
    traffic.ids += n
    traffic.rounds += 1
    traffic.contacts += deployment.contacted(shape.seeds)


def ask_for_hops(shape, deployment, traffic, fanouts):
    for rows, edges, fanout in zip(shape.rows, shape.edges, fanouts):
        n, e, q = rows * deployment.elsewhere, edges * deployment.elsewhere, deployment.asked(rows)
        per_edge = deployment.id_bytes + deployment.edge_id_bytes
        arrays = 2 + (deployment.edge_id_bytes > 0)
        traffic.add(q, q * (DRAW + SECTION + IN_ORDER) + 4 * n,
                    q * (ANSWER + SECTION + arrays * IN_ORDER) + count_width(fanout) * n + per_edge * e)
        traffic.rows += n
        traffic.edges += e
        traffic.rounds += q > 0
        traffic.contacts += deployment.contacted(rows)


def ask_for_rest(shape, deployment, traffic):
    """Features, and original ids beside them, in one round."""
    q, before, n = 0.0, traffic.most_at_once, shape.nodes * deployment.elsewhere
    each = deployment.asked(shape.nodes)
    for row_bytes in deployment.feature_bytes:
        traffic.add(each, each * (QUESTION + 16 + IN_ORDER) + 4 * n, each * (ANSWER + (IN_ORDER if row_bytes % 8 else 0)) + row_bytes * n)
        traffic.feature_rows += n
        q += each
    if deployment.sharded:
        unknown = shape.nodes * share_of_unknown(shape, deployment)
        # Those of a batch are dealt to the partitions elsewhere as rows are.
        each = deployment.asked(unknown / deployment.elsewhere) if unknown else 0.0
        traffic.add(each, each * (QUESTION + 8 + IN_ORDER) + 4 * unknown, each * (ANSWER + IN_ORDER) + deployment.id_bytes * unknown)
        traffic.ids += unknown
        q += each
    traffic.most_at_once = max(before, q)
    traffic.rounds += q > 0
    traffic.contacts += deployment.contacted(shape.nodes) if q else 0.0


def traffic_of(shape, deployment, fanouts):
    traffic = Traffic()
    ask_for_seeds(shape, deployment, traffic)
    ask_for_hops(shape, deployment, traffic, fanouts)
    ask_for_rest(shape, deployment, traffic)
    return traffic


# ---- costs

def cpu_terms(shape, deployment, fanouts):
    """What the CPU time of a batch is a sum over, of all processes of all machines. Over partitions own rows are drawn into an answer too,
    every edge is placed out of one, and rows of features are looked for one by one; what lies elsewhere costs its way in addition."""
    traffic = traffic_of(shape, deployment, fanouts)
    row_bytes, over = sum(deployment.feature_bytes), float(deployment.machines > 1)
    return {"batch": 1.0, "seed": shape.seeds, "row": shape.expanded, "edge": shape.drawn, "node": shape.nodes, "node_byte": shape.nodes * row_bytes,
            "placed_edge": shape.drawn * over, "placed_byte": shape.nodes * row_bytes * over, "round": traffic.rounds,
            "contact": traffic.contacts, "question": traffic.questions, "far_edge": traffic.edges, "far_byte": traffic.asked_bytes + traffic.answered_bytes}


def memory_terms(shape, deployment, fanouts):
    """Of the anonymous memory of a machine's sampling processes beyond what they begin with, for each batch under way."""
    traffic = traffic_of(shape, deployment, fanouts)
    return {"batch": 1.0, "edge": shape.drawn, "node": shape.nodes, "answer_byte": traffic.answered_bytes}


def predicted(costs, terms):
    return sum(costs[name] * amount for name, amount in terms.items())


def fit(rows, values):
    """Costs of the terms, none below zero, with the least squares of the relative errors: least squares over those terms that are not
    held at zero, where a term goes to zero when it comes out below, the lowest first (no result of a term that is zero is read)."""
    names = list(rows[0])
    scaled = [[row[name] / value for name in names] for row, value in zip(rows, values)]
    free = list(range(len(names)))
    while True:
        found = least_squares([[line[i] for i in free] for line in scaled])
        worst = min(range(len(free)), key=lambda i: found[i] * max(line[free[i]] for line in scaled))
        if found[worst] >= 0:
            return {name: found[free.index(i)] if i in free else 0.0 for i, name in enumerate(names)}
        free.pop(worst)


def least_squares(lines):
    """Of a sum of each line's terms that shall be 1, by the normal equations; terms are scaled to their largest."""
    size = len(lines[0])
    scale = [max(abs(line[i]) for line in lines) or 1.0 for i in range(size)]
    lines = [[line[i] / scale[i] for i in range(size)] for line in lines]
    matrix = [[sum(line[i] * line[j] for line in lines) + (1e-9 if i == j else 0) for j in range(size)] + [sum(line[i] for line in lines)]
              for i in range(size)]
    for i in range(size):
        pivot = max(range(i, size), key=lambda r: abs(matrix[r][i]))
        matrix[i], matrix[pivot] = matrix[pivot], matrix[i]
        for r in range(size):
            if r != i:
                factor = matrix[r][i] / matrix[i][i]
                matrix[r] = [a - factor * b for a, b in zip(matrix[r], matrix[i])]
    return [matrix[i][size] / matrix[i][i] / scale[i] for i in range(size)]


# ---- rates

def on_the_wire(payload):
    """Bytes of Ethernet frames that carry so many bytes of a connection."""
    return payload * (1 + SEGMENT_HEADS / SEGMENT)


def rate_of_link(bytes_of_batch, bits_per_s):
    """Batches/s of a machine whose link takes so much in one direction."""
    return bits_per_s / 8 / on_the_wire(bytes_of_batch)


def rate_of_delay(traffic, round_trip, busy_s, under_way):
    """Batches/s of a worker that has so many under way, each of which waits for its rounds; one at a time is worked at."""
    return min(under_way / (traffic.rounds * round_trip + busy_s), 1 / busy_s)


def slowest_of(servers, usual, slow, replicas=1, late=0.020):
    """Seconds until the last of so many servers has answered, in the mean, where 1 in 100 answers is slow. With a replica who is late is asked
    elsewhere: after 20 ms, which is beyond 99 of 100 of its answers."""
    far = slow if replicas == 1 else min(slow, late + usual)
    return usual + (far - usual) * (1 - 0.99 ** servers)


# ---- graphs that nobody has made

def random_shape(nodes, degree, fanouts, batch_size, most_known=400):
    """Of a graph whose edges come from anywhere evenly, each node with about `degree` of them: at 10^10 nodes next to no node is met twice,
    which is the most that a batch can have."""
    rows, edges, seen = [batch_size], [], float(batch_size)
    for fanout in fanouts:
        edges.append(rows[-1] * min(fanout, degree))
        new = (nodes - seen) * -math.expm1(-edges[-1] / nodes)
        seen += new
        rows.append(new)
    known_by, share = {}, math.exp(-degree)  # a node that was found has an edge, and Poisson's share of others
    if degree > most_known:
        known_by[int(degree)] = 1.0
    else:
        for to in range(2 * most_known):
            known_by[1 + to] = share
            share *= degree / (to + 1)
    return Shape(seeds=batch_size, rows=rows[:-1], edges=edges, nodes=seen, known_by=known_by)


def partition_bytes(nodes, edges, machines, id_bytes, feature_bytes=0, edge_id_bytes=0, split_share=0.01, sharded=True):
    """Of a machine's folder, by what they are of (docs/formats.md)."""
    own, own_edges = nodes / machines, edges / machines
    remote = (nodes - own) * -math.expm1(-own_edges / nodes)
    found = {"rows": 16 * own, "neighbours": id_bytes * own_edges, "edge ids": edge_id_bytes * own_edges, "hotness": 8 * own,
             "features": feature_bytes * own}
    if sharded:
        return found | {"ids of its range": id_bytes * own, "ids of remote sources": (2 * id_bytes + 1) * remote,
                        "splits": 16 * split_share * own}
    return found | {"ids of all nodes": 2 * id_bytes * nodes, "splits": 8 * split_share * nodes}
