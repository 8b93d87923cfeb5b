"""Each event that a server writes stands in docs/observing.md, and each key of its status in docs/protocol.md.

Usage: check_events.py ROOT     prints one line per name that is missing, exits 1 if there is any
"""

import re
import sys
from pathlib import Path

EVENT = re.compile(r'\blog_?(?:\.|->)add\(\s*(?:\w+ \?\s*)?"(\w+)"(?:\s*:\s*"(\w+)")?')
KEY = re.compile(r'\{"(\w+)",')
LABELS = {"stage", "state", "table", "tier", "worker"}  # of metrics, in the same source


def section(page: str, heading: str) -> str:
    return page.split(f"\n## {heading}\n", 1)[1].split("\n## ", 1)[0]


def missing(root: Path) -> list[str]:
    server = root / "server_client_mode" / "server"
    sources = "".join(path.read_text() for path in sorted(server.glob("*.cc")))
    events = {name for found in EVENT.findall(sources) for name in found if name}
    keys = set(KEY.findall((server / "server_status.cc").read_text())) - LABELS
    told = section((root / "docs" / "observing.md").read_text(), "A server")
    status = section((root / "docs" / "protocol.md").read_text(), "Status")
    if len(events) < 15 or len(keys) < 30:  # the sources look otherwise than this script expects
        return [f"{server}: {len(events)} events and {len(keys)} keys are found; see this script"]
    return [f"docs/observing.md lacks the event `{name}`" for name in sorted(events) if f"`{name}`" not in told] + [
        f"docs/protocol.md lacks the key `{name}` of a status" for name in sorted(keys) if f"`{name}`" not in status
    ]


if __name__ == "__main__":
    lines = missing(Path(sys.argv[1]))
    print("\n".join(lines) if lines else "every event and key of a server stands in its page")
    sys.exit(1 if lines else 0)
