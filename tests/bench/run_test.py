#!/usr/bin/env python3
"""Tests of bench/run.py with benchmarks that measure nothing."""
import contextlib
import io
import json
import pathlib
import subprocess
import sys
import tempfile
import time
import unittest
from unittest import mock

sys.dont_write_bytecode = True  # leave the source tree as it is
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent.parent / "bench"))
import run  # noqa: E402

RESULTS = {"tables": [{"title": "Some | cost", "text": "Done so.", "columns": ["a", "b"], "rows": [["1", "x|y"], ["2", ""]]}],
           "bars": [{"what": "this", "bar": "<= 1x", "measured": "0.5x", "met": True, "limit": "nothing"},
                    {"what": "that", "bar": "<= 1x", "measured": "2x", "met": False, "limit": "the kernel"}]}
WRITE = "import json, sys; open(sys.argv[sys.argv.index('--json') + 1], 'w').write(r'''{}''')"


class RunTest(unittest.TestCase):
    def setUp(self):
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.root = pathlib.Path(directory.name)
        (self.root / "bench").mkdir()
        (self.root / "build/bench").mkdir(parents=True)
        for name, value in (("ROOT", self.root), ("QUICK_SECONDS", 20)):
            patch = mock.patch.object(run, name, value)
            patch.start()
            self.addCleanup(patch.stop)

    def script(self, name, text):
        (self.root / f"bench/{name}.py").write_text(text, encoding="utf-8")

    def gives(self, name, results):
        self.script(name, WRITE.format(json.dumps(results)))

    def main(self, *names):
        """(exit code, the page, what it said)"""
        output = self.root / "page.md"
        with mock.patch.object(run, "BENCHMARKS", names), mock.patch("os.geteuid", return_value=0), \
                contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()) as said:
            code = run.main(["--no-build", "--quick", "--build", str(self.root / "build"), "--output", str(output)])
        return code, output.read_text(encoding="utf-8"), said.getvalue()

    def test_the_page_has_what_users_ask_first_then_the_bars_and_the_rest(self):
        self.gives("one", RESULTS)
        self.gives("memory", {"tables": [dict(RESULTS["tables"][0], title="Memory")], "bars": []})
        self.gives("training_step", {"tables": [dict(RESULTS["tables"][0], title="Steps")], "bars": []})
        code, page, said = self.main("one", "memory", "training_step")
        self.assertEqual((code, said), (0, ""))
        self.assertIn("1 of 2 are met.", page)
        self.assertIn("| this | <= 1x | 0.5x | met |  | `one` |\n| that | <= 1x | 2x | **missed** | the kernel | `one` |\n", page)
        self.assertIn("## Some | cost\n\nDone so. (`one`)\n\n| a | b |\n| --- | --- |\n| 1 | x\\|y |\n| 2 |  |\n", page)
        self.assertIn("sudo bench/run.py --quick\n", page)
        order = [page.index(f"## {title}\n") for title in ("Steps", "Memory", "Appendix: bars", "Some | cost")]
        self.assertEqual(order, sorted(order))

    def test_a_full_run_writes_its_numbers_into_the_readme(self):
        (self.root / "docs").mkdir()
        readme = self.root / "README.md"
        for said, expected in (("", "old\n"), ("| new |\n", "| new |\n")):
            readme.write_text(f"Before.\n{run.README_BEGIN}old\n{run.README_END}After.\n", encoding="utf-8")
            self.gives("one", dict(RESULTS, readme=said))
            with mock.patch.object(run, "PAGE", self.root / "docs/benchmarks.md"), mock.patch.object(run, "README", readme), \
                    mock.patch.object(run, "BENCHMARKS", ("one",)), mock.patch("os.geteuid", return_value=0), \
                    contextlib.redirect_stdout(io.StringIO()):
                self.assertEqual(run.main(["--no-build", "--build", str(self.root / "build")]), 0)
            self.assertEqual(readme.read_text(encoding="utf-8"), f"Before.\n{run.README_BEGIN}{expected}{run.README_END}After.\n")

    def test_an_update_replaces_what_the_benchmark_had_found_before(self):
        self.gives("one", RESULTS)
        self.gives("two", {"tables": [dict(RESULTS["tables"][0], title="Two")], "bars": [dict(RESULTS["bars"][0], what="other")]})
        names = ("one", "two")
        _, before, _ = self.main(*names)
        new = {"tables": [dict(RESULTS["tables"][0], title="New", rows=[["5", "6"]])], "bars": [dict(RESULTS["bars"][0], what="new")]}
        with mock.patch.object(run, "BENCHMARKS", names):
            after = run.updated(before, {"one": new}, "another machine")
            self.assertEqual(run.page(*run.read_page(before)), before)
        self.assertIn("## New\n\nDone so. Measured again on another machine. (`one`)\n", after)
        self.assertIn("| 5 | 6 |\n", after)
        self.assertIn("| new | <= 1x | 0.5x | met |  | `one` |\n| other | <= 1x | 0.5x | met |  | `two` |\n", after)
        self.assertIn("2 of 2 are met.", after)
        self.assertNotIn("## Some", after)
        self.assertNotIn("| that |", after)
        self.assertIn("## Two\n", after)

    def test_the_readme_has_a_place_for_the_numbers(self):
        text = pathlib.Path(run.__file__).resolve().parent.parent.joinpath("README.md").read_text(encoding="utf-8")
        self.assertIn("| new |\n" + run.README_END, run.with_numbers(text, {"one": {"readme": "| new |\n"}}))

    def test_one_that_fails_does_not_stop_the_others(self):
        self.script("broken", "raise SystemExit(3)")
        self.gives("one", RESULTS)
        code, page, said = self.main("broken", "absent", "one")
        self.assertEqual(code, 1)
        self.assertIn("`broken` is missing here: it ended with 3.", page)
        self.assertIn("`absent` is missing here: there is neither bench/absent.py nor", page)
        self.assertIn("## Some", page)
        self.assertIn("failed: broken, absent", said)

    def test_what_does_not_fit_is_refused(self):
        table = RESULTS["tables"][0]
        for why, results in {
                "it has no tables": {"tables": [], "bars": []},
                "its JSON has no tables and bars": {"tables": [table]},
                "a table lacks text": {"tables": [{k: v for k, v in table.items() if k != "text"}], "bars": []},
                "is empty": {"tables": [dict(table, rows=[])], "bars": []},
                "does not fit its columns: ['1']": {"tables": [dict(table, rows=[["1"]])], "bars": []},
                "does not fit its columns: ['1', 2]": {"tables": [dict(table, rows=[["1", 2]])], "bars": []},
                "a bar lacks limit, met": {"tables": [table], "bars": [{"what": "", "bar": "", "measured": ""}]}}.items():
            with self.subTest(why=why):
                self.gives("one", results)
                code, page, _ = self.main("one")
                self.assertEqual(code, 1)
                self.assertIn(why, page)

    def test_one_that_writes_nothing_fails(self):
        self.script("silent", "")
        code, page, _ = self.main("silent")
        self.assertEqual(code, 1)
        self.assertIn("`silent` is missing here: [Errno 2]", page)

    def test_one_that_does_not_end_is_ended_with_what_it_started(self):
        pid = self.root / "pid"
        self.script("endless", f"import subprocess, time; child = subprocess.Popen(['sleep', '600'])\n"
                               f"open({str(pid)!r}, 'w').write(str(child.pid))\ntime.sleep(600)")
        with mock.patch.object(run, "QUICK_SECONDS", 2):
            code, page, _ = self.main("endless")
        self.assertEqual(code, 1)
        self.assertIn("it took more than 2 seconds", page)
        for _ in range(100):
            state = subprocess.run(["ps", "-o", "stat=", "-p", pid.read_text()], capture_output=True, text=True, check=False).stdout
            if not state.strip() or state.startswith("Z"):
                return
            time.sleep(0.1)
        self.fail("its child runs on")

    def test_a_script_comes_before_a_program_of_that_name(self):
        (self.root / "build/bench/one").write_text("#!/bin/sh\nexit 5\n")
        (self.root / "build/bench/one").chmod(0o755)
        self.gives("one", RESULTS)
        self.assertEqual(self.main("one")[0], 0)
        (self.root / "bench/one.py").unlink()
        self.assertIn("it ended with 5", self.main("one")[1])

    def test_quick_figures_do_not_become_the_page(self):
        with contextlib.redirect_stderr(io.StringIO()) as said, self.assertRaises(SystemExit):
            run.parse(["--quick"])
        self.assertIn("--quick needs --output", said.getvalue())


if __name__ == "__main__":
    unittest.main()
