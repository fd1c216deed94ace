#!/usr/bin/env python3
"""Tests of bench/fit.py."""
import math
import pathlib
import sys
import unittest

sys.dont_write_bytecode = True  # leave the source tree as it is
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent.parent / "bench"))
import fit  # noqa: E402


class FitTest(unittest.TestCase):
    def test_powers_are_found(self):
        for power in (-1, 0, 0.5, 1, 2):
            with self.subTest(power=power):
                self.assertAlmostEqual(fit.exponent([(load, 7 * load**power) for load in (1, 10, 100)]), power)

    def test_what_is_off_the_line_counts_by_its_square(self):
        # Logarithms to the base 10: (0, 0), (1, 0), (2, 3): the slope of least squares is 3/2.
        self.assertAlmostEqual(fit.exponent([(1, 1), (10, 1), (100, 1000)]), 1.5)

    def test_without_two_loads_there_is_none(self):
        for pairs in ([], [(1, 2)], [(5, 1), (5, 2)], [(0, 1), (1, 1)], [(1, 0), (10, 1)], [(1, 1), (10, -1)]):
            with self.subTest(pairs=pairs):
                self.assertTrue(math.isnan(fit.exponent(pairs)))
                self.assertEqual(fit.exponent_text(pairs), "")

    def test_the_text_has_two_digits(self):
        self.assertEqual(fit.exponent_text([(1, 1), (10, 10), (100, 100)]), "1.00")


if __name__ == "__main__":
    unittest.main()
