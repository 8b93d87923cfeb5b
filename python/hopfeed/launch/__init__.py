"""hopfeed-launch: servers and trainers on several machines, from one command over ssh (docs/cluster.md).

The launcher (``run``) starts one agent on each host (``agent``), by ssh (``session``), and says to it what to run (``plan``) in
lines of JSON (``messages``). The agent holds what it starts (``children``), and ends it when its input ends.
"""
