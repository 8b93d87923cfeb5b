"""hopfeed.Loader: epochs, states, ranks, types, and what wrong arguments are told."""

from __future__ import annotations

import os
import pickle
import random
import signal
import subprocess
import sys
import threading
import time
import warnings
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import hopfeed
from hopfeed import epochs, keywords


def digests(loader: hopfeed.Loader) -> list[int]:
    return [batch.digest() for batch in loader]


@pytest.mark.parametrize("workers", [0, 2])
def test_batches_are_rows_of_the_dataset_and_edges_join_their_nodes(small: Path, workers: int) -> None:
    dataset = hopfeed.Dataset(small)
    with hopfeed.Loader(small, fanouts=[4, 3], batch_size=100, num_workers=workers, edge_ids=True) as loader:
        assert len(loader) == 5 and loader.num_seeds == 500
        seen = []
        for batch in loader:
            assert (dataset.attr("x")[batch.n_id] == batch.x).all()
            assert batch.edge_index.max() < len(batch.n_id)
            assert batch.num_sampled_nodes.sum() == len(batch.n_id)
            assert batch.num_sampled_edges.sum() == batch.edge_index.shape[1] == len(batch.e_id)
            seen.append(batch.n_id[: len(batch.input_id)].copy())
        assert sorted(np.concatenate(seen)) == sorted(dataset.split("train"))


def test_dataset_ids_stand_beside_original_ids(small: Path, tmp_path: Path) -> None:
    hopfeed.partition(small, tmp_path / "cut", parts=3)
    dataset = hopfeed.Dataset(tmp_path / "cut")
    offsets = np.asarray(dataset.meta["node_types"][0]["partition_offsets"])
    arguments = dict(fanouts=[4, 3], batch_size=100, seed=7, num_workers=0)
    with hopfeed.Loader(tmp_path / "cut", **arguments) as plain, hopfeed.Loader(tmp_path / "cut", dataset_ids=True, **arguments) as both:
        for one, other in zip(plain, both, strict=True):
            assert "dataset_id" not in one[dataset.node_types[0]] and (one.n_id == other.n_id).all()
            of_nodes = other.dataset_id
            assert (dataset.attr("x")[other.n_id] == other.x).all() and len(set(of_nodes)) == len(of_nodes)
            assert (np.searchsorted(offsets, of_nodes, side="right") - 1 == dataset.partition_of(other.n_id)).all()


def test_an_epoch_is_the_same_whoever_makes_it_and_the_next_one_is_another(small: Path) -> None:
    arguments = dict(fanouts=[4, 3], batch_size=100, seed=7)
    with hopfeed.Loader(small, num_workers=0, **arguments) as one, hopfeed.Loader(small, num_workers=2, **arguments) as two:
        first, second = digests(one), digests(one)
        assert [digests(two), digests(two)] == [first, second]
        assert first != second
    with hopfeed.Loader(small, num_workers=0, epoch=1, **arguments) as later:
        assert digests(later) == second
    with hopfeed.Loader(small, num_workers=0, **(arguments | {"seed": 8})) as other:
        assert digests(other) != first


def test_ranks_share_an_epoch(small: Path) -> None:
    parts = []
    for rank in range(3):
        with hopfeed.Loader(small, fanouts=[2], batch_size=50, rank=rank, world_size=3, num_workers=0) as loader:
            assert len(loader) == len(list(loader)) == 4
            parts += [batch.input_id.copy() for batch in loader]
    assert sorted(np.concatenate(parts)) == list(range(500))


def test_an_iteration_goes_on_from_its_state_also_with_another_world_size(small: Path) -> None:
    arguments = dict(fanouts=[4, 3], batch_size=50, num_workers=0, seed=3)
    with hopfeed.Loader(small, **arguments) as loader:
        whole = digests(loader)
        again = iter(loader)
        for _ in range(4):
            next(again)
        state = pickle.loads(pickle.dumps(loader.state_dict()))
        rest = [batch.digest() for batch in again]
        assert loader.state_dict() | {"spec": None} == {"version": 1, "epoch": 2, "position": 0, "spec": None}
    assert (state["epoch"], state["position"]) == (1, 200)
    with hopfeed.Loader(small, **arguments) as resumed:
        resumed.load_state_dict(state)
        assert digests(resumed) == rest
        assert digests(resumed) != whole  # epoch 2
    both: list[int] = [0] * 6
    for rank in range(2):
        with hopfeed.Loader(small, rank=rank, world_size=2, **arguments) as half:
            half.load_state_dict(state)
            both[rank::2] = digests(half)
    assert both == rest
    with hopfeed.Loader(small, **(arguments | {"seed": 4})) as other, pytest.raises(hopfeed.InvalidError, match="seed is"):
        other.load_state_dict(state)


@pytest.mark.parametrize(("world", "last"), [(1, 480), (2, 480), (3, 360)])
def test_a_state_behind_the_last_batch_begins_the_next_epoch_though_a_rest_was_dropped(small: Path, world: int, last: int) -> None:
    arguments = dict(fanouts=[2], batch_size=60, drop_last=True, num_workers=0, rank=0, world_size=world)
    with hopfeed.Loader(small, **arguments) as loader:
        batches = iter(loader)
        for _ in range(len(loader) - 1):
            next(batches)
        before = loader.state_dict()
        end = next(batches).digest()
        state = loader.state_dict()
        assert (before["epoch"], before["position"]) == (0, last - 60 * world) and (state["epoch"], state["position"]) == (1, 0)
        del batches
        following = digests(loader)
        assert len(following) == len(loader)
    for told in (state, state | {"epoch": 0, "position": last}):  # the second as older releases told it
        with hopfeed.Loader(small, **arguments) as resumed:
            resumed.load_state_dict(told)
            assert digests(resumed) == following
    with hopfeed.Loader(small, **arguments) as resumed:
        resumed.load_state_dict(before)
        assert digests(resumed) == [end] and digests(resumed) == following
    with hopfeed.Loader(small, **(arguments | {"drop_last": False, "world_size": 1})) as resumed:  # here nothing is dropped
        resumed.load_state_dict(state | {"epoch": 0, "position": last})
        assert sum(len(batch.input_id) for batch in resumed) == 500 - last


@pytest.mark.parametrize("workers", [0, 1])
def test_iterators_are_independent(small: Path, workers: int) -> None:
    arguments = dict(fanouts=[2], batch_size=50, num_workers=workers)
    with hopfeed.Loader(small, **arguments) as loader:
        epochs = [digests(loader) for _ in range(4)]
    with hopfeed.Loader(small, **arguments) as loader:
        pairs = [(one.digest(), other.digest()) for one, other in zip(loader, loader)]
        assert pairs == list(zip(epochs[0], epochs[1]))
        outer = iter(loader)
        trained = [next(outer).digest() for _ in range(3)]
        assert digests(loader) == epochs[3]  # an evaluation within the epoch
        assert trained + [batch.digest() for batch in outer] == epochs[2]
        assert loader.epoch == 4 and len(loader.worker_pids()) == workers


@pytest.mark.parametrize("workers", [0, 1])
def test_a_state_is_of_the_iterator_that_gave_the_last_batch(small: Path, workers: int) -> None:
    def state(loader: hopfeed.Loader) -> tuple[int, int]:
        saved = loader.state_dict()
        return saved["epoch"], saved["position"]

    with hopfeed.Loader(small, fanouts=[2], batch_size=50, num_workers=workers) as loader:
        older, newer = iter(loader), iter(loader)
        assert state(loader) == (0, 0)
        next(older)
        assert state(loader) == (0, 50)
        next(newer)
        assert state(loader) == (1, 50)
        next(older)
        assert state(loader) == (0, 100) and loader.epoch == 0
        del older, newer
        third = iter(loader)
        assert state(loader) == (2, 0) and len(list(third)) == 10 and state(loader) == (3, 0)
        loader.load_state_dict(loader.state_dict() | {"epoch": 7, "position": 450})
        assert len(digests(loader)) == 1 and len(digests(loader)) == 10 and loader.epoch == 9


def test_a_state_is_of_the_new_epoch_though_the_iterator_of_the_last_is_kept(small: Path) -> None:
    with hopfeed.Loader(small, fanouts=[2], batch_size=50, num_workers=0) as loader:
        first = iter(loader)
        assert len(list(first)) == 10
        second = iter(loader)
        state = loader.state_dict()
        assert (state["epoch"], state["position"], loader.epoch) == (1, 0, 1)
        assert len(list(second)) == 10


def test_a_second_stream_is_opened_only_while_an_older_iterator_goes_on(small: Path) -> None:
    with hopfeed.Loader(small, fanouts=[2], batch_size=50, num_workers=1) as loader:
        first = iter(loader)
        older = next(first), loader.stream
        assert list(iter(loader)) and loader.stream is older[1]
        del first
        for _ in range(3):
            for _ in loader:
                break
        assert loader.stream is older[1] and loader.stats()["workers"] == 1
        kept = iter(loader)
        loader.close()
        with pytest.raises(hopfeed.InvalidError, match="closed"):
            next(kept)


def test_a_second_stream_that_has_no_memory_says_why_there_is_one(small: Path) -> None:
    with hopfeed.Loader(small, fanouts=[2], batch_size=50, num_workers=0) as loader:
        first = iter(loader)
        loader._options["channel_size"] = 1 << 44
        with pytest.raises(hopfeed.NoSpaceError, match="channel_size.* An older iterator of this loader is alive"):
            iter(loader)
        assert len(list(first)) == 10


def test_a_batch_that_an_interrupt_kept_back_is_given_again(small: Path) -> None:
    """A KeyboardInterrupt before next() returns costs no batch, in the state neither; another exception leaves its batch out."""

    class Raising(hopfeed.Loader):
        raised: list[BaseException] = []

        def _convert(self, batch):
            if self.raised:
                super()._convert(batch).x[:] = -1  # what was begun is thrown away: the batch is made anew
                raise self.raised.pop()
            return super()._convert(batch).digest()

    arguments = dict(fanouts=[2], batch_size=50, num_workers=0)
    with Raising(small, **arguments) as loader:
        expected = list(loader)
        assert len(expected) == 10
    with Raising(small, **arguments) as loader:
        batches, got = iter(loader), []
        for step in range(10):
            if step in (0, 1, 9):
                loader.raised = [KeyboardInterrupt()]
                before = loader.state_dict()
                with pytest.raises(KeyboardInterrupt):
                    next(batches)
                assert loader.state_dict() == before
            got.append(next(batches))
        assert got == expected and next(batches, None) is None
    with Raising(small, **arguments) as loader:
        batches = iter(loader)
        loader.raised = [ValueError("of the transform")]
        with pytest.raises(ValueError, match="of the transform"):
            next(batches)
        assert loader.state_dict()["position"] == 50 and list(batches) == expected[1:]


@pytest.mark.parametrize("workers", [0, 1])
@pytest.mark.parametrize("interrupted", [False, True])
def test_threads_that_share_an_iterator_get_each_batch_once(small: Path, workers: int, interrupted: bool) -> None:
    """A KeyboardInterrupt anywhere within next() loses none, and none comes twice."""
    next_of_iterators = epochs._Batches.__next__.__code__
    interrupts = [0]

    def interrupt(_: int, frame: Any) -> None:
        within = frame
        while within is not None and within.f_code is not next_of_iterators:
            within = within.f_back
        if within is not None:
            interrupts[0] += 1
            raise KeyboardInterrupt

    def pull(batches: Any, got: list[int]) -> None:
        while True:
            if interrupted and threading.current_thread() is threading.main_thread():
                signal.setitimer(signal.ITIMER_REAL, random.uniform(1e-6, 3e-4))
            try:
                got.append(next(batches).key)
            except KeyboardInterrupt:
                continue
            except StopIteration:
                return

    before = signal.signal(signal.SIGALRM, interrupt)
    try:
        with hopfeed.Loader(small, fanouts=[2], batch_size=2, num_workers=workers) as loader:
            for epoch in range(5):
                batches = iter(loader)
                got: list[list[int]] = [[], [], []]
                others = [threading.Thread(target=pull, args=(batches, each)) for each in got[1:]]
                for other in others:
                    other.start()
                pull(batches, got[0])
                for other in others:
                    other.join()
                counts = Counter(key for each in got for key in each)
                assert len(counts) == len(loader) == 250 and set(counts.values()) == {1}
                assert loader.state_dict()["epoch"] == epoch + 1
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert (interrupts[0] > 0) == interrupted


class Stuck(hopfeed.Loader):
    """Its first batch is not given before ``go`` is set."""

    begun: threading.Event
    go: threading.Event

    def _convert(self, batch: Any) -> Any:
        self.begun.set()
        assert self.go.wait(60)
        return super()._convert(batch)


def test_who_waits_for_another_thread_hears_of_an_interrupt(small: Path) -> None:
    Stuck.begun, Stuck.go, got = threading.Event(), threading.Event(), []
    with Stuck(small, fanouts=[2], batch_size=50, num_workers=0) as loader:
        batches = iter(loader)
        other = threading.Thread(target=lambda: got.append(next(batches)))
        other.start()
        assert Stuck.begun.wait(60)
        watch = threading.Timer(0.2, lambda: signal.pthread_kill(threading.main_thread().ident, signal.SIGINT))
        watch.start()
        with pytest.raises(KeyboardInterrupt):
            next(batches)
        watch.join()
        Stuck.go.set()
        got += list(batches)
        other.join()
        assert sorted(seed for batch in got for seed in batch.input_id) == list(range(500))


def test_a_fork_while_another_thread_makes_a_batch_is_refused_one(small: Path) -> None:
    Stuck.begun, Stuck.go = threading.Event(), threading.Event()
    with Stuck(small, fanouts=[2], batch_size=50, num_workers=0) as loader:
        batches = iter(loader)
        other = threading.Thread(target=lambda: next(batches))
        other.start()
        assert Stuck.begun.wait(60)
        child = os.fork()
        if child == 0:
            try:
                next(batches)
            except hopfeed.InvalidError:
                os._exit(0)
            finally:
                os._exit(1)
        status, deadline = (0, 0), time.monotonic() + 30
        while status[0] == 0 and time.monotonic() < deadline:
            time.sleep(0.01)
            status = os.waitpid(child, os.WNOHANG)
        if status[0] == 0:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
        Stuck.go.set()
        other.join()
    assert status == (child, 0)


@pytest.mark.parametrize("workers", [0, 1])
def test_who_holds_all_batches_gets_copies_and_is_told_once(small: Path, workers: int) -> None:
    with hopfeed.Loader(small, fanouts=[4, 3], batch_size=20, num_workers=workers) as loader:
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            held = list(loader)
        assert len(held) == 25 and len(told) == 1 and "copied" in str(told[0].message)
        assert held[-1].is_copy and not held[0].is_copy
        values = [batch.x.copy() for batch in held]
    with hopfeed.Loader(small, fanouts=[4, 3], batch_size=20, num_workers=0) as loader, warnings.catch_warnings():
        warnings.simplefilter("error")  # nobody who drops them is told
        for batch, value in zip(loader, values):
            assert (batch.x == value).all()


def test_what_is_raised_between_batches_loses_none(small: Path) -> None:
    """A warning that is an error, as any exception of the caller's own, leaves the iteration as it was."""
    with hopfeed.Loader(small, fanouts=[2], batch_size=20, num_workers=0) as loader:
        expected = digests(loader)
    with hopfeed.Loader(small, fanouts=[2], batch_size=20, num_workers=0) as loader, warnings.catch_warnings():
        warnings.simplefilter("error")
        batches, held, raised = iter(loader), [], 0
        while len(held) < 25:
            try:
                held.append(next(batches))
            except UserWarning:
                raised += 1
        assert raised == 1 and [batch.digest() for batch in held] == expected
        assert next(batches, None) is None and next(batches, None) is None


@pytest.mark.parametrize("workers", [0, 1])
def test_fewer_seeds_than_a_batch_are_no_batch_where_the_last_is_dropped(small: Path, workers: int) -> None:
    arguments = dict(fanouts=[2], seeds=np.arange(30), drop_last=True, num_workers=workers)
    with hopfeed.Loader(small, batch_size=31, **arguments) as loader:
        assert len(loader) == 0 and list(loader) == [] and list(loader) == []
        assert (loader.state_dict()["epoch"], loader.state_dict()["position"]) == (2, 0)
    with hopfeed.Loader(small, batch_size=16, rank=1, world_size=2, **arguments) as loader:
        assert len(loader) == 0 and list(loader) == []


@pytest.mark.parametrize("workers", [0, 1])
@pytest.mark.parametrize(
    "given",
    [
        {"seeds": []}, {"seeds": np.empty(0, np.int64), "drop_last": True}, {"seed_mask": np.zeros(2000, bool)},
        {"seeds": [], "seed_weights": []}, {"edge_type": "to", "links": np.empty((0, 2), np.int64), "link_labels": []},
        {"seeds": [], "rank": 1, "world_size": 2},
    ],
    ids=str,
)  # fmt: skip
def test_no_seeds_are_epochs_without_a_batch(small: Path, given: dict[str, Any], workers: int) -> None:
    with hopfeed.Loader(small, fanouts=[2], num_workers=workers, **given) as loader:
        assert len(loader) == loader.num_seeds == 0 and list(loader) == [] and next(iter(loader), None) is None
        state = loader.state_dict()
        assert (state["epoch"], state["position"]) == (2, 0)
        loader.load_state_dict(state | {"epoch": 5})
        assert list(loader) == [] and loader.epoch == 6
        if "seeds" in given:
            one = {name: [1, 1] if name.startswith("seed") else value for name, value in given.items()}
            with hopfeed.Loader(small, fanouts=[2], num_workers=0, **one) as other, pytest.raises(hopfeed.InvalidError, match="seeds.sha256"):
                other.load_state_dict(state)
    with pytest.raises(hopfeed.InvalidError, match="closed"):
        iter(loader)


def test_other_arguments_are_checked_where_there_are_no_seeds(small: Path) -> None:
    for wrong, message in (
        ({"batch_size": 0}, "batch_size"), ({"fanout": [2]}, "no option 'fanout'"), ({"attrs": ["z"]}, "z"),
        ({"seed_weights": [1.0]}, "seed_weights has 1 entries, and seeds none"), ({"seed_times": [1, 2]}, "seed_times has 2 entries, and seeds none"),
    ):  # fmt: skip
        with pytest.raises(hopfeed.Error, match=message):
            hopfeed.Loader(small, seeds=[], num_workers=0, **wrong)


@pytest.mark.parametrize("number", [int, np.int64, np.uint8])
def test_no_seeds_are_no_batches_for_each_of_many_ranks(small: Path, number: Any) -> None:
    for given in ({"seeds": []}, {"seed_mask": np.zeros(2000, bool)}):
        for ranks in (2, 200) if number is np.uint8 else (2, 2001):
            with hopfeed.Loader(small, fanouts=[2], num_workers=0, rank=number(1), world_size=number(ranks), **given) as loader:
                assert len(loader) == loader.num_seeds == 0 and list(loader) == []


@pytest.mark.parametrize("ranks", [1, 3000])
@pytest.mark.parametrize("entries", [0, 1999, 2001])
def test_an_empty_mask_of_another_length_is_refused_whatever_the_ranks(small: Path, entries: int, ranks: int) -> None:
    with pytest.raises(hopfeed.InvalidError, match=f"the mask of seeds has {entries} entries, and type '.*' has 2000 nodes"):
        hopfeed.Loader(small, fanouts=[2], num_workers=0, seed_mask=np.zeros(entries, bool), rank=0, world_size=ranks)


@pytest.mark.parametrize("links", [[], (), np.array([]), np.empty((0, 2), np.int64)], ids=repr)
def test_no_links_are_epochs_without_a_batch(typed: Path, links: Any) -> None:
    with hopfeed.Loader(typed, fanouts=[2], num_workers=0, edge_type=("user", "likes", "item"), links=links) as loader:
        assert len(loader) == loader.num_seeds == 0 and list(loader) == []


def test_a_hop_of_fanout_zero_draws_nothing(small: Path) -> None:
    with hopfeed.Loader(small, fanouts=[3, 0], batch_size=50) as loader:
        assert all(batch.num_sampled_nodes[2] == batch.num_sampled_edges[1] == 0 < batch.num_sampled_edges[0] for batch in loader)
    with hopfeed.Loader(small, fanouts=[0], batch_size=50) as loader:
        assert all(batch.edge_index.shape == (2, 0) and len(batch.n_id) == 50 for batch in loader)


def test_types_have_stores_of_their_own(typed: Path) -> None:
    with hopfeed.Loader(
        typed, fanouts=[3, 2], edge_fanouts={("user", "likes", "item"): [2, 2]}, node_type="item", seeds=np.arange(40),
        batch_size=10, num_workers=0,
    ) as loader:
        dataset = hopfeed.Dataset(typed)
        for batch in loader:
            assert batch["user"].x.shape == (len(batch["user"].n_id), 4)
            assert (dataset.attr("x", "user")[batch["user"].n_id] == batch["user"].x).all()
            assert batch["user", "likes", "item"].edge_index.max() < len(batch["user"].n_id)
            with pytest.raises(AttributeError, match="several types"):
                batch.n_id
            blocks = batch.to_blocks()
            assert len(blocks) == 2
            assert blocks[-1].num_dst["item"] == 10 and blocks[0].num_dst["item"] == len(blocks[1].src_ids["item"])


def test_blocks_of_both_directions_are_those_of_the_drawn_edges(small: Path) -> None:
    arguments = dict(fanouts=[4, 3], batch_size=50, num_workers=0, seed=3, edge_ids=True)
    both = dict(subgraph="bidirectional", keep_orig_edges=True)
    with hopfeed.Loader(small, **arguments) as plain, hopfeed.Loader(small, **arguments, **both) as loader:
        for expected, batch in zip(plain, loader, strict=True):
            for one, other in zip(expected.to_blocks(), batch.to_blocks(), strict=True):
                assert one.num_dst == other.num_dst and (one.src_ids["node"] == other.src_ids["node"]).all()
                assert all((one.edges[edge] == other.edges[edge]).all() for edge in one.edges)
                assert one.edge_ids and not other.edge_ids  # e_id is of the edges in both directions


def test_links_have_labels_and_negatives(small: Path) -> None:
    rng = np.random.default_rng(1)
    links = rng.integers(0, 2000, (300, 2))
    with hopfeed.Loader(
        small, edge_type="to", links=links, negatives="binary", amount=2, fanouts=[3], batch_size=100, num_workers=0
    ) as loader:
        for batch in loader:
            assert batch.edge_label_index.shape == (2, 300)
            assert batch.edge_label.tolist() == [1.0] * 100 + [0.0] * 200
            ends = batch.n_id[batch.edge_label_index[:, :100]]
            assert (ends == links[batch.input_id].T).all()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"batch_size": 0}, "batch_size"),
        ({"batch_size": "many"}, "batch_size is 'many' .str.; give a whole number"),
        ({"fanouts": [-2]}, r"fanouts is \[-2\]; give whole numbers"),
        ({"fanouts": [2.5]}, r"fanouts is \[2.5\]; give whole numbers"),
        ({"fanouts": [True]}, r"fanouts is \[True\]; give whole numbers"),
        ({"edge_fanouts": {"to": [2, 2, None]}}, r"edge_fanouts\['to'\] is \[2, 2, None\]; give whole numbers"),
        ({"fanouts": "15,10"}, "fanouts"),
        ({"fanout": [5]}, "no option 'fanout'"),
        ({"seeds": [5000]}, "5000"),
        ({"seeds": [[1, 2]]}, r"seeds is int64 \[1, 2\]; give an array of int64 with 1 dimension"),
        ({"seeds": [0.5]}, "seeds is float64"),
        ({"seed_mask": [True]}, "mask"),
        ({"split": "training"}, "training"),
        ({"node_type": "paper"}, "paper"),
        ({"attrs": ["z"]}, "z"),
        ({"weight": "w"}, "w"),
        ({"rank": 1}, "rank and world_size go together"),
        ({"rank": 2, "world_size": 2}, "rank"),
        ({"distributed": True, "rank": 0, "world_size": 1}, "distributed"),
        ({"links": [[1, 2, 3]], "edge_type": "to"}, "links"),
        ({"edge_type": "from"}, "from"),
        ({"links": [[1, 2]]}, "without edge_type"),
        ({"edge_fanouts": 5}, "edge_fanouts is 5"),
        ({"epoch": "first"}, "epoch is 'first'"),
        ({"subgraph": "half"}, "half"),
        ({"batch_deadline": "soon"}, "batch_deadline"),
        ({"graph_mode": "tpu"}, "tpu"),
        ({"gpu_graph_cache": "0.5"}, "gpu_graph_cache is of a GPU"),
        ({"gpu_graph_cache": "4GX"}, "gpu_graph_cache is '4GX'"),
        ({"graph_mode": "cuda", "cpu_fallback": True, "device_batches": True}, "cpu_fallback is of batches in the host's memory"),
        ({"seed": -1}, "seed is -1"),
        ({"num_workers": -1}, "num_workers"),
    ],
)
def test_a_wrong_argument_is_one_error_that_names_it(small: Path, arguments: dict[str, object], message: str) -> None:
    with pytest.raises(hopfeed.Error, match=message):
        hopfeed.Loader(small, **({"num_workers": 0} | arguments))


@pytest.mark.parametrize("workers", [0, 1])
def test_the_cpu_samples_where_the_gpu_cannot_be_used_and_it_may(small: Path, workers: int) -> None:
    arguments = dict(fanouts=[4, 3], batch_size=100, seed=7, num_workers=workers)
    with hopfeed.Loader(small, **arguments) as cpu, hopfeed.Loader(small, graph_mode="cuda", cpu_fallback=True, **arguments) as gpu:
        assert digests(gpu) == digests(cpu)
        stats = gpu.stats()
        assert stats["gpu_batches"] + stats["cpu_batches"] == len(gpu)


_WITHOUT_A_GPU = """
import sys, time, warnings, hopfeed
loader = hopfeed.Loader(sys.argv[1], fanouts=[4, 3], batch_size=5, num_workers=int(sys.argv[2]), graph_mode="cuda", cpu_fallback=True)
if sys.argv[4:]:
    warnings.showwarning = lambda *told, **more: print("told behind a batch:", loader.stats()["batches"] > 0)
until = time.monotonic() + float(sys.argv[3])
while sum(1 for _ in loader) == 100 and time.monotonic() < until:
    pass
print(loader.stats()["gpu_batches"])
"""


def warned_without_a_gpu(told: str, *options: str, small: Path, workers: int = 0, more: Sequence[str] = ()) -> subprocess.CompletedProcess[str]:
    """What a loader in a process of its own says, once it says `told`: the GPU is looked for while the first batches are made."""
    for seconds in ("0.5", "20"):
        command = [sys.executable, *options, "-c", _WITHOUT_A_GPU, str(small), str(workers), seconds, *more]
        done = subprocess.run(command, capture_output=True, text=True, timeout=120)
        if done.returncode == 0 and done.stdout.split()[-1] != "0":
            pytest.skip("there is a GPU here")
        if told in done.stdout + done.stderr:
            break
    return done


@pytest.mark.parametrize("workers", [0, 1])
def test_one_warning_says_why_the_cpu_samples(small: Path, workers: int) -> None:
    told = "the GPU cannot be used, and the CPU samples: "
    done = warned_without_a_gpu(told, small=small, workers=workers)
    assert done.returncode == 0, done.stderr
    warned = [line for line in done.stderr.splitlines() if told in line]
    assert len(warned) == 1, done.stderr
    assert ("hopfeed-worker: warning: " if workers else "RuntimeWarning: ") in warned[0]


def test_who_shows_warnings_may_ask_the_loader_and_where_they_are_errors_they_are_raised(small: Path) -> None:
    done = warned_without_a_gpu("told behind", small=small, more=["ask"])
    assert done.returncode == 0, done.stderr
    assert done.stdout == "told behind a batch: True\n0\n"
    raised = warned_without_a_gpu("RuntimeWarning", "-W", "error::RuntimeWarning", small=small)
    assert raised.returncode == 1
    assert raised.stderr.splitlines()[-1].startswith("RuntimeWarning: the GPU cannot be used, and the CPU samples: ")


def numbers() -> list[str]:
    """The keywords that are numbers, or lists of such."""
    found = {keyword.name for keyword in keywords.KEYWORDS if keyword.type in ("int", "float", "Sequence[int]")}
    assert {"batch_size", "seed", "cores", "walk_p", "channel_size", "connect_timeout"} <= found
    return sorted(found - {"fanouts"})  # which is tested above


@pytest.mark.parametrize("name", numbers())
def test_true_and_false_are_no_numbers(small: Path, name: str) -> None:
    for value in (True, False, np.True_):
        given = [value] if name in ("cores", "worker_devices", "partitions") else value
        with pytest.raises(hopfeed.InvalidError) as raised:
            hopfeed.Loader(small, **({"num_workers": 0, "rank": 0, "world_size": 1} | {name: given}))
        assert str(raised.value) == f"{name} is {given!r} ({type(given).__name__}); give a number: True and False are none"


def test_commands_take_no_switch_for_a_number(small: Path, tmp_path: Path) -> None:
    for name in ("nodes", "edges", "features", "classes", "seed"):
        with pytest.raises(hopfeed.InvalidError, match=f"^{name} is True \\(bool\\); give a number"):
            hopfeed.generate(tmp_path / "made", **({"nodes": 10, "edges": 20} | {name: True}))
    for command, name in (("partition", "parts"), ("partition", "threads"), ("tune", "batches"), ("import_numpy", "train_fraction")):
        folders = {"partition": [small, tmp_path / "made"], "tune": [small], "import_numpy": [tmp_path / "made"]}[command]
        with pytest.raises(hopfeed.InvalidError, match=f"^{name} is True"):
            getattr(hopfeed, command)(*folders, **({"parts": 2} if command == "partition" else {}) | {name: True})
    with pytest.raises(hopfeed.InvalidError, match="^threads is True"):
        hopfeed.generate(tmp_path / "made", nodes=10, edges=20, threads=True)
    assert not (tmp_path / "made").exists()


def test_what_is_missing_is_said(tmp_path: Path) -> None:
    with pytest.raises(hopfeed.NotFoundError, match="nothing-there"):
        hopfeed.Loader(tmp_path / "nothing-there")
    with pytest.raises(hopfeed.InvalidError, match="dataset is missing"):
        hopfeed.Loader()
    with pytest.raises(hopfeed.Error, match="127.0.0.1"):
        hopfeed.Loader(servers=["127.0.0.1:1"], connect_timeout=0.5, reconnect_deadline=1)


def test_a_dataset_reads_rows_splits_and_partitions(small: Path, tmp_path: Path) -> None:
    from conftest import partition

    cut = tmp_path / "cut"
    partition("partition", small, cut, "--parts", 3)
    one, three = hopfeed.Dataset(small), hopfeed.Dataset(cut)
    ids = np.arange(2000)
    assert (one.attr("x")[ids] == three.attr("x")[:]).all() and one.attr("x").shape == (2000, 8)
    assert (one.split("train") == three.split("train")).all()
    assert (one.edge_index() == three.edge_index()).all() and one.edge_index().shape == (2, one.num_edges())
    with hopfeed.Loader(cut, fanouts=[-1], seeds=ids, batch_size=2000, num_workers=0, edge_ids=True) as loader:
        (batch,) = loader
        assert (batch.n_id[batch.edge_index] == one.edge_index()[:, batch.e_id]).all()
    assert one.fingerprint == three.fingerprint and three.num_partitions == 3
    assert set(three.partition_of(ids)) == {0, 1, 2}
    with pytest.raises(hopfeed.NotFoundError, match="'w'"):
        one.attr("w")
    assert one.attr("x")[[[1, 2], [3, 4]]].shape == (2, 2, 8) and one.attr("x")[7].shape == (8,)
    assert one.attr("x")[[]].shape == (0, 8) and one.attr("y")[ids < 3].shape == (3,)
    with pytest.raises(hopfeed.InvalidError, match="2000"):
        one.attr("x")[[2000]]


@pytest.mark.parametrize("name", ["epoch", "position"])
@pytest.mark.parametrize("value", [None, -1, 2**63, 1.5, "1", True])
def test_a_state_with_a_place_that_no_run_has_is_refused_by_name(small: Path, name: str, value: object) -> None:
    with hopfeed.Loader(small, batch_size=50) as loader:
        state = loader.state_dict()
        with pytest.raises(hopfeed.InvalidError, match=f"'{name}' of the state is .*; give what state_dict\\(\\) gave"):
            loader.load_state_dict(state | {name: value})
        with pytest.raises(hopfeed.InvalidError, match="'spec' of the state is None"):
            loader.load_state_dict(state | {"spec": None})
        loader.load_state_dict(state)


@pytest.mark.parametrize("text", ["{", "[1]", "[" * 100_000, "\x00\xff"])
def test_a_manifest_that_is_no_json_object_is_told_in_our_words(tmp_path: Path, text: str) -> None:
    (tmp_path / "meta.json").write_bytes(text.encode("latin-1"))
    with pytest.raises(hopfeed.CorruptError, match="meta.json is (damaged|no JSON object); restore it"):
        hopfeed.Dataset(tmp_path)
