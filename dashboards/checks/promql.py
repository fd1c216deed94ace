"""As much of PromQL as is needed to tell which series a query reads, and how.

It is no parser: promtool is asked whether a query is one (lint.py).
"""

import dataclasses
import functools
import re

_TOKEN = re.compile(r"""
    (?P<space>\s+|\#[^\n]*)
  | (?P<string>"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*'|`[^`]*`)
  | (?P<number>(?:\d+(?:\.\d+)?(?:ms|[smhdwy]))+|0[xX][0-9a-fA-F]+|(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?)
  | (?P<name>[A-Za-z_:$][A-Za-z0-9_:$]*|\$\{\w+\})
  | (?P<sign>=~|!~|!=|==|<=|>=|[-+*/%^(){}\[\],=<>@])
""", re.VERBOSE)
_GROUPING = {"by", "without", "on", "ignoring", "group_left", "group_right"}
_WORDS = _GROUPING | {"and", "or", "unless", "bool", "offset", "start", "end", "inf", "nan"}


class NotPromql(Exception):
    """With a sentence that says what."""


@dataclasses.dataclass
class Selector:
    """One place at which a query reads a metric."""
    metric: str
    matchers: dict  # label -> (operator, value)
    window: str     # what stands in [ ], or nothing
    function: str   # whose argument it is, or nothing
    at_end: bool = False  # read at the end of the range, whichever moment is asked for


@dataclasses.dataclass
class Query:
    selectors: list
    grouped_by: set     # labels named by `by` and added by group_left and group_right
    other_labels: set   # named by on, ignoring and without
    replaced: set       # labels that label_replace and label_join make
    matched_on: list = dataclasses.field(default_factory=list)  # the labels of each on (...)


def _tokens(text):
    at, found = 0, []
    while at < len(text):
        match = _TOKEN.match(text, at)
        if not match:
            raise NotPromql(f"{text[at:at + 10]!r} is nothing in PromQL")
        if match.lastgroup != "space":
            found.append((match.lastgroup, match.group()))
        at = match.end()
    return found + [("end", "")] * 3


class _Reader:
    def __init__(self, text):
        self.tokens = _tokens(text)
        self.at = 0
        self.query = Query([], set(), set(), set())

    def next(self):
        token = self.tokens[self.at]
        self.at += 1
        return token

    def peek(self, ahead=0):
        return self.tokens[self.at + ahead][1]

    def expect(self, sign):
        kind, text = self.next()
        if text != sign or kind == "string":
            raise NotPromql(f"{text!r} stands where {sign!r} should")

    def labels(self):
        self.expect("(")
        names = set()
        while self.peek() != ")":
            kind, name = self.next()
            if kind != "name":
                raise NotPromql(f"{name!r} is no label")
            names.add(name)
            if self.peek() == ",":
                self.next()
        self.next()
        return names

    def matchers(self):
        found = {}
        if self.peek() != "{":
            return found
        self.next()
        while self.peek() != "}":
            kind, label = self.next()
            operator = self.next()[1]
            value_kind, value = self.next()
            if kind != "name" or operator not in ("=", "!=", "=~", "!~") or value_kind != "string":
                raise NotPromql(f"{label}{operator}{value} is no matcher")
            found[label] = (operator, value[1:-1])
            if self.peek() == ",":
                self.next()
            elif self.peek() != "}":
                raise NotPromql(f"{self.peek()!r} follows a matcher")
        self.next()
        return found

    def window(self):
        if self.peek() != "[":
            return ""
        self.next()
        text = ""
        while self.peek() != "]":
            kind, part = self.next()
            if kind == "end":
                raise NotPromql("a [ is not closed")
            text += part
        self.next()
        return text

    def read(self):
        open_functions = []
        while True:
            kind, text = self.next()
            if kind == "end":
                break
            if kind == "name" and text in _GROUPING:
                if self.peek() == "(" or not text.startswith("group_"):
                    names = self.labels()
                    by = text in ("by", "group_left", "group_right")
                    if text == "on":
                        self.query.matched_on.append(names)
                    (self.query.grouped_by if by else self.query.other_labels).update(names)
            elif kind == "name" and (text.lower() in _WORDS or text.startswith("$__")):
                pass  # Grafana's own variables are durations and numbers.
            elif kind == "name" and self.peek() == "(":
                self.next()
                open_functions.append(text)
            elif kind == "name" and self.peek() in _GROUPING and self.peek(1) == "(":
                # sum by (...) (
                by = self.next()[1]
                names = self.labels()
                (self.query.grouped_by if by == "by" else self.query.other_labels).update(names)
                self.expect("(")
                open_functions.append(text)
            elif kind == "name":
                matchers = self.matchers()
                self.query.selectors.append(Selector(
                    text, matchers, self.window(), open_functions[-1] if open_functions else "",
                    self.peek() == "@" and self.peek(1) == "end"))
            elif text == "{" and kind == "sign":
                raise NotPromql("a selector has no metric")
            elif text == "(" and kind == "sign":
                open_functions.append("")
            elif text == ")" and kind == "sign":
                if not open_functions:
                    raise NotPromql("a ) is too many")
                open_functions.pop()
            elif kind == "string" and "label_replace" in open_functions[-1:]:
                # label_replace(v, "made", "replacement", "source", "regex")
                self.query.replaced.add(text[1:-1])
                for _ in range(3):
                    self.expect(",")
                    self.next()
            elif kind == "string" and "label_join" in open_functions[-1:]:
                # label_join(v, "made", "separator", "source", "source", ...)
                self.query.replaced.add(text[1:-1])
                while self.peek() == ",":
                    self.next()
                    self.next()
        if open_functions:
            raise NotPromql("a ( is not closed")
        return self.query


@functools.lru_cache(maxsize=None)
def read(text):
    """The query's Query; raises NotPromql."""
    return _Reader(text).read()
