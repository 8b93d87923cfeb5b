#!/usr/bin/env python3
"""A soak that is asked to end does so in one line, and takes its folder and its workers along."""
import os
import signal
import subprocess
import sys
import tempfile
import time
import unittest

SOAK = sys.argv.pop() if len(sys.argv) > 1 else "hopfeed-soak"


def left_in(folder):
    """ThreadSanitizer's copy of its own read-only data is left by a process that is killed while it starts; it is not ours."""
    return [name for name in os.listdir(folder) if not name.startswith("tsan.rodata.")]


class Soak(unittest.TestCase):
    def test_a_stop_signal_is_one_line_and_leaves_nothing(self):
        for asked in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            with tempfile.TemporaryDirectory(prefix="hopfeed-test-") as folder:
                soak = subprocess.Popen([SOAK, "--kills", "1000000000"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                        env={**os.environ, "TMPDIR": folder})
                while soak.poll() is None and not left_in(folder):
                    time.sleep(0.01)
                time.sleep(0.5)  # faults are being made
                soak.send_signal(asked)
                _, err = soak.communicate(timeout=60)
                self.assertEqual(soak.returncode, 130, err)
                self.assertIn("interrupted", err.strip().splitlines()[-1])
                self.assertEqual(left_in(folder), [])


if __name__ == "__main__":
    unittest.main()
