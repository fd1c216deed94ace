"""Series before they are samples: where each begins and ends, and the sum that each is."""

import dataclasses

from checks import metrics
from fleet import buckets


@dataclasses.dataclass
class Series:
    head: str
    first: int  # scrapes
    last: int  # one past
    parts: list  # (values over all scrapes, factor)
    resets: int | None = None  # scrape of a restart at which it begins at 0
    whole: bool = False  # only whole numbers

    def values(self, first, last):
        """Of the scrapes from `first` to before `last`."""
        first, last = max(first, self.first), min(last, self.last)
        if first >= last:
            return first, []
        if len(self.parts) == 1:
            values, factor = self.parts[0]
            found = [value * factor for value in values[first:last]]
        else:
            found = [sum(values[index] * factor for values, factor in self.parts)
                     for index in range(first, last)]
        if self.resets is not None and self.resets < last:
            base = sum(values[self.resets] * factor for values, factor in self.parts)
            since = max(self.resets, first) - first
            found[since:] = [max(0.0, value - base) for value in found[since:]]
        if self.whole:
            found = [int(value + 1e-6) for value in found]
        return first, found


class Store:
    """All series of an instance's exporter, or of another. With a catalog, a family has the labels of its row
    in docs/metrics.md, each of which must be given a value."""

    def __init__(self, clock, catalog=None):
        self.clock, self.catalog = clock, catalog
        self.series = {}
        self.families = set()
        # Filled in by who knows: when the exporter restarted, and when it could not be scraped.
        self.target, self.restart, self.gaps = {}, None, ()

    def _head(self, name, labels, le=None):
        labels = {**self.target, **labels}
        if self.catalog and name not in metrics.FOREIGN:
            family = self.catalog.family(name)
            if not family:
                raise LookupError(f"docs/metrics.md has no {name}")
            missing = family.labels - labels.keys()
            if missing:
                raise LookupError(f"the fleet has no value for the labels {sorted(missing)} of {name}")
            labels = {label: value for label, value in labels.items() if label in family.labels | {"cluster"}}
            self.families.add(family.name)
        if le is not None:
            labels["le"] = le
        inner = ",".join(f'{label}="{escaped(str(value))}"' for label, value in labels.items() if value != "")
        return f"{name}{{{inner}}} "

    def add(self, name, labels, values, factor=1.0, first=0, last=None, counter=True, whole=True, le=None):
        """Adds values to a series, which are a sample for each scrape."""
        head = self._head(name, labels, le)
        last = self.clock.count if last is None else last
        one = self.series.get(head)
        if one is None:
            resets = self.restart if counter and self.restart and first < self.restart else None
            self.series[head] = Series(head, first, last, [(values, factor)], resets, whole)
        else:
            one.parts.append((values, factor))
            one.first, one.last = min(one.first, first), max(one.last, last)

    def gauge(self, name, labels, values, first=0, last=None, whole=True):
        self.add(name, labels, values, 1.0, first, last, False, whole)

    def constant(self, name, labels, value, first=0, last=None, counter=False):
        """`counter`: one that stays what it is, such as of losses that there are not."""
        self.add(name, labels, [value] * self.clock.count, 1.0, first, last, counter, isinstance(value, int))

    def histogram(self, name, labels, bounds, values, factor, mean, spread, first=0, last=None):
        """`values` times `factor` are the count; all of one lognormal distribution."""
        for bound in bounds:
            self.add(f"{name}_bucket", labels, values, factor * buckets.share_below(bound, mean, spread), first, last,
                     le=buckets.text(bound))
        self.add(f"{name}_bucket", labels, values, factor, first, last, le="+Inf")
        self.add(f"{name}_count", labels, values, factor, first, last)
        self.add(f"{name}_sum", labels, values, factor * mean, first, last, whole=False)

    def write(self, file, first, last):
        """Samples of the scrapes from `first` to before `last`, as OpenMetrics without its end."""
        stamps = [f" {self.clock.start + second}\n" for second in self.clock.seconds]
        for one in self.series.values():
            start, values = one.values(first, last)
            head = one.head
            texts = map(str, values) if one.whole else map("{:.9g}".format, values)
            lines = [head + text + stamp for text, stamp in zip(texts, stamps[start:])]
            for gap in () if head.startswith("up{") else self.gaps:
                if start <= gap < start + len(lines):
                    lines[gap - start] = ""
            file.write("".join(lines))


def escaped(text):
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
