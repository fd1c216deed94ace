"""Prints location tables, for a unit test that reads them: of each code object of some modules, its first line, its
table, and the line of each instruction, or 0 where it has none."""

import argparse
import types
import typing


def lines_of(code):
    """By units of two bytes."""
    for begin, end, line in code.co_lines():
        yield from [line or 0] * ((end - begin) // 2)


def print_all(code):
    print(code.co_firstlineno, code.co_linetable.hex(), *lines_of(code))
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            print_all(constant)


for module in (argparse, typing):
    with open(module.__file__, encoding="utf-8") as source:
        print_all(compile(source.read(), module.__file__, "exec"))
