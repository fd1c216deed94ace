#!/usr/bin/env python3
"""Tests of compare.py; needs no GPU."""

import contextlib
import io
import json
import os
import sys
import tempfile
import unittest
from unittest import mock

sys.dont_write_bytecode = True  # leave the source tree as it is
import compare  # noqa: E402

PAGE = """\
# HELP gpusnoop_cuda_memcpy_total Successful memory copies.
# TYPE gpusnoop_cuda_memcpy_total counter
gpusnoop_cuda_memcpy_total{comm="calls",container_id="",direction="h2d",mode="sync",gpu="unknown"} 3
gpusnoop_cuda_memcpy_total{comm="calls",container_id="",direction="d2h",mode="sync",gpu="unknown"} 4
gpusnoop_cuda_memcpy_total{comm="other",container_id="",direction="h2d",mode="sync",gpu="unknown"} 100
gpusnoop_cuda_memcpy_bytes_total{comm="a \\"b\\", c=\\\\n\\n}",container_id=""} 1.5e+06
gpusnoop_probe_entries_total{probe="cuda"} 10
gpusnoop_probe_events_total{probe="cuda"} 8
gpusnoop_probe_stale_calls_total{probe="cuda"} 2
gpusnoop_probe_in_flight_calls{probe="cuda"} 0
gpusnoop_probe_events_lost_total{probe="cuda",reason="ring_full"} 0
gpusnoop_probe_unmatched_returns_total{probe="cuda"} 0
up 1
"""


class CompareTest(unittest.TestCase):
    def setUp(self):
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.directory = directory.name

    def file(self, name, text):
        path = os.path.join(self.directory, name)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        return path

    def run_main(self, page, *arguments):
        output = io.StringIO()
        with mock.patch.object(sys, "argv", ["compare.py", self.file("page", page), *arguments]), \
                contextlib.redirect_stdout(output), contextlib.redirect_stderr(output):
            try:
                return compare.main(), output.getvalue()
            except SystemExit as stopped:
                return stopped.code, output.getvalue()

    def totals(self, *running):
        return self.file("totals", json.dumps({"program": "calls", "running": running, "ended": []}))

    def test_sums_the_samples_that_have_the_labels(self):
        page = compare.Page(PAGE)
        self.assertEqual(page.sum("gpusnoop_cuda_memcpy_total", {"comm": "calls"}), 7)
        self.assertEqual(page.sum("gpusnoop_cuda_memcpy_total", {"comm": "calls", "direction": "h2d"}), 3)
        self.assertEqual(page.sum("gpusnoop_cuda_memcpy_total", {"comm": "nobody"}), 0)
        self.assertEqual(page.sum("up", {}), 1)

    def test_reads_escaped_labels(self):
        labels = {"comm": 'a "b", c=\\n\n}'}
        self.assertEqual(compare.Page(PAGE).sum("gpusnoop_cuda_memcpy_bytes_total", labels), 1.5e6)

    def test_refuses_what_is_no_page(self):
        for line in ("<html>", 'a{b="c} 1', "a{b=c} 1", "a one"):
            with self.subTest(line), self.assertRaises(ValueError):
                compare.Page(line + "\n")

    def test_equal_totals_pass(self):
        code, output = self.run_main(PAGE, self.totals(["gpusnoop_cuda_memcpy_total", {"comm": "calls"}, 7]))
        self.assertEqual(code, 0)
        self.assertRegex(output, r"calls +cuda_memcpy_total +7 +7 yes")

    def test_a_difference_fails(self):
        for own in (6, 8):
            code, output = self.run_main(PAGE, self.totals(
                ["gpusnoop_cuda_memcpy_total", {"comm": "calls", "direction": "h2d"}, 3],
                ["gpusnoop_cuda_memcpy_total", {"comm": "calls"}, own]))
            self.assertEqual(code, 1)
            self.assertRegex(output, rf"cuda_memcpy_total +{own} +7 NO")

    def test_nothing_to_compare_is_no_success(self):
        self.assertEqual(self.run_main(PAGE, self.totals())[0], 2)

    def test_the_account(self):
        self.assertEqual(self.run_main(PAGE, "--account")[0], 0)
        lost = PAGE.replace('reason="ring_full"} 0', 'reason="ring_full"} 1')
        self.assertEqual(self.run_main(lost, "--account")[0], 1)
        missing = PAGE.replace('events_total{probe="cuda"} 8', 'events_total{probe="cuda"} 7')
        self.assertEqual(self.run_main(missing, "--account")[0], 1)


if __name__ == "__main__":
    unittest.main()
