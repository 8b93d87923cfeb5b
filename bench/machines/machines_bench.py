#!/usr/bin/env python3
"""What it costs that a graph's partitions lie on two machines: bytes on the wire, CPU time of a batch, and the rate with
a delay between them. Prints JSON.

Usage: machines_bench.py --data DIR [--sharded DIR] [--bin FOLDER] [--fanouts 15,10,5] [--batch-size N] [--epochs N] [--rounds N] [--delay MS]

  --data DIR     a dataset in two partitions, whose batches are made by a machine that has the first
  --sharded DIR  the same cut with sharded ids, measured by turns
  --row-cache N  memory for rows of the other (20M); default: none
  --delay MS     that a relay adds to each direction (1); the rate through it is compared with that through the same relay
                 without

bytes            of questions, answers and their headers, over what the issue of them allows: 12 for a row asked for, 8 for a
                 neighbour, the bytes of missed feature rows, 64 a frame
cpu              CPU seconds of a batch, of all processes, over those of one machine that has all, and of sending as many bytes
                 over the loopback, in the same round
delay            batches/s with the delay over without
sharded_cpu      with --sharded: CPU seconds of a batch over those where every machine has all ids
sharded_bytes    bytes, over 8 for a row whose id is asked, 12 for each mapped seed or negative, 64 for each frame more, and what
                 travels without
"""
import argparse
import asyncio
import json
import pathlib
import resource
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
FRAME = 24 + 8  # header and checksum


def cpu_of(pid):
    """Seconds of a process and of its children that live."""
    def ticks(p):
        fields = pathlib.Path(f"/proc/{p}/stat").read_text().rsplit(")", 1)[1].split()
        return int(fields[11]) + int(fields[12])
    children = pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return sum(ticks(p) for p in [pid, *children]) / 100


class Server:
    def __init__(self, bin_folder, data, partition):
        self.process = subprocess.Popen(
            [bin_folder / "hopfeed-server", "--data", data, "--partitions", str(partition), "--listen", "127.0.0.1:0"],
            stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        self.address = self.process.stdout.readline().split()[-1]
        self.status_command = [bin_folder / "hopfeed-server", "status", self.address]

    def peers(self):
        return json.loads(subprocess.run(self.status_command, check=True, capture_output=True, text=True).stdout)["peers"]

    def end(self):
        self.process.kill()
        self.process.wait()


class Relay:
    """Passes bytes on, `delay` seconds after they came; it may be changed at any time."""

    def __init__(self, target, delay, host="127.0.0.1"):
        self.target, self.delay, self.host = target.rsplit(":", 1), delay, host
        self.loop = asyncio.new_event_loop()
        self.ready = threading.Event()
        threading.Thread(target=self.run, daemon=True).start()
        self.ready.wait()

    def run(self):
        asyncio.set_event_loop(self.loop)
        server = self.loop.run_until_complete(asyncio.start_server(self.serve, self.host, 0, limit=1 << 22))
        self.address = "%s:%d" % (self.host, server.sockets[0].getsockname()[1])
        self.ready.set()
        self.loop.run_forever()

    async def serve(self, reader, writer):
        other_reader, other_writer = await asyncio.open_connection(*self.target, limit=1 << 22)
        await asyncio.gather(self.pump(reader, other_writer), self.pump(other_reader, writer))

    async def pump(self, reader, writer):
        queue = asyncio.Queue()

        async def write():
            while (item := await queue.get()) is not None:
                due, chunk = item
                if (left := due - self.loop.time()) > 0:
                    await asyncio.sleep(left)
                writer.write(chunk)
                await writer.drain()
            writer.close()
        task = asyncio.ensure_future(write())
        try:
            while chunk := await reader.read(1 << 20):
                queue.put_nowait((self.loop.time() + self.delay, chunk))
        except ConnectionError:
            pass
        queue.put_nowait(None)
        await task


def bare_loop(size):
    """CPU seconds of sending and receiving so many bytes over the loopback."""
    listener = socket.create_server(("127.0.0.1", 0))
    chunk = memoryview(bytearray(1 << 20))

    def send():
        with socket.create_connection(listener.getsockname()) as out:
            left = size
            while left > 0:
                left -= out.send(chunk[:min(left, len(chunk))])
    before = time.process_time()
    thread = threading.Thread(target=send)
    thread.start()
    connection, _ = listener.accept()
    into = bytearray(1 << 20)
    while connection.recv_into(into):
        pass
    thread.join()
    return time.process_time() - before


def sample(options, data, more):
    """One run: batches, seconds, CPU seconds of the program and its workers, rows by tiers."""
    with tempfile.NamedTemporaryFile(suffix=".json") as report:
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run([options.bin / "hopfeed-sample", data, "--fanouts", options.fanouts, "--batch-size", str(options.batch_size),
                        "--epochs", str(options.epochs), "--num-workers", "1", "--json", report.name, *more],
                       check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        told = json.load(open(report.name, encoding="utf-8"))
    return {"batches": told["batches"], "seconds": told["seconds"], "tiers": told["tiers"],
            "cpu": after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime}


def over_two(options, data, other, machine):
    """One run of a machine that asks another: what it told, CPU seconds of both, the other's counts, bytes on the wire."""
    before, cpu = other.peers(), cpu_of(other.process.pid)
    told = sample(options, data, [*machine, "--peers", other.address])
    cpu = cpu_of(other.process.pid) - cpu + told["cpu"]
    peers = {key: value - before[key] for key, value in other.peers().items()}
    return told, cpu, peers, peers["question_bytes"] + peers["answer_bytes"] + 2 * FRAME * peers["questions"]


def beside_sharded(options, server, machine, cpu, peers, wire):
    _, sharded_cpu, asked, sharded_wire = over_two(options, options.sharded, server, machine)
    more = 8 * asked["original_ids"] + 12 * asked["mapped_ids"] + 64 * 2 * (asked["questions"] - peers["questions"])
    return {"sharded_cpu": sharded_cpu / cpu, "sharded_bytes": sharded_wire / (wire + more), "sharded_to_replicated_bytes": sharded_wire / wire}


def parse(usage, parts=2, **defaults):
    """The options, whose defaults tell what each is, and the manifest of --data, which is in `parts` partitions."""
    parser = argparse.ArgumentParser(add_help=False)
    parser.add_argument("--data", type=pathlib.Path)
    parser.add_argument("--help", "-h", action="store_true")
    for name, default in {"fanouts": "15,10,5", "rounds": 5, **defaults}.items():
        what = default if isinstance(default, type) else type(default)
        parser.add_argument("--" + name.replace("_", "-"), type=what, default=None if default is what else default)
    options = parser.parse_args()
    if options.help or options.data is None:
        sys.exit(usage.strip())
    meta = json.loads((options.data / "meta.json").read_text(encoding="utf-8"))
    if meta["partitions"] != parts:
        sys.exit(f"{options.data} has {meta['partitions']} partitions; cut it into {parts} "
                 f"(hopfeed-partition partition --parts {parts})")
    return options, meta


def main():
    options, meta = parse(__doc__, bin=ROOT / "build/release/bin", batch_size=1024, epochs=3, row_cache=str, delay=1.0,
                          sharded=pathlib.Path)
    other = Server(options.bin, options.data, 1)
    sharded = Server(options.bin, options.sharded, 1) if options.sharded else None
    machine = ["--partitions", "0", *(["--row-cache", options.row_cache] if options.row_cache else [])]
    try:
        straight, late = Relay(other.address, 0), Relay(other.address, options.delay / 1000)
        rounds = []
        for _ in range(options.rounds):
            one = sample(options, options.data, [])
            two, cpu, peers, wire = over_two(options, options.data, other, machine)
            # Rows of every attribute have their own bytes, which are told together.
            allowed = (12 * peers["drawn_rows"] + 8 * peers["drawn_edges"] + two["tiers"]["peer_bytes"] + 2 * 64 * peers["questions"])
            loop = bare_loop(wire)
            rounds.append({
                "bytes": wire / allowed, "bytes_per_batch": wire / two["batches"],
                "cpu": cpu / (one["cpu"] + loop), "cpu_ms_per_batch": 1000 * cpu / two["batches"],
                "cpu_ms_of_one_machine": 1000 * one["cpu"] / one["batches"], "cpu_ms_of_bare_loop": 1000 * loop / two["batches"],
                "rate": (two["batches"] / two["seconds"]) / (one["batches"] / one["seconds"]),
                "delay": sample(options, options.data, [*machine, "--peers", late.address])["seconds"] ** -1
                         / sample(options, options.data, [*machine, "--peers", straight.address])["seconds"] ** -1,
                **(beside_sharded(options, sharded, machine, cpu, peers, wire) if sharded else {}),
                "cache_hit_rate": two["tiers"]["cache_rows"] / max(1, two["tiers"]["cache_rows"] + two["tiers"]["peer_rows"])})
    finally:
        for server in filter(None, (other, sharded)):
            server.end()
    print(json.dumps({"bench": "machines", "data": meta["name"], "fanouts": options.fanouts, "batch_size": options.batch_size,
                      "rounds": options.rounds, "row_cache": options.row_cache, "delay_ms": options.delay,
                      "median": {key: statistics.median(r[key] for r in rounds) for key in rounds[0]}, "all": rounds}, indent=1))


if __name__ == "__main__":
    main()
