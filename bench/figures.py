"""What the benchmarks that are Python programs have in common: figures as text, and results as bench/run.py takes them."""

import argparse
import json
import statistics


def quantile(values, part):
    """Between two values where it falls there. 0 <= part <= 1"""
    values = sorted(values)
    at = part * (len(values) - 1)
    below = int(at)
    above = min(below + 1, len(values) - 1)
    return values[below] + (values[above] - values[below]) * (at - below)


def ratio_text(ratios):
    """The median of ratios, and their tenth and ninetieth of a hundred."""
    return f"{statistics.median(ratios):.2f}x ({quantile(ratios, 0.1):.2f} to {quantile(ratios, 0.9):.2f})"


class Results:
    def __init__(self):
        self.tables = []
        self.bars = []
        self.readme = ""  # Markdown for the README, if there is any

    def table(self, title, text, columns, rows):
        self.tables.append({"title": title, "text": text, "columns": columns, "rows": rows})

    def bar(self, what, bar, measured, met, limit=""):
        self.bars.append({"what": what, "bar": bar, "measured": measured, "met": met, "limit": "" if met else limit})

    def give(self, path=None):
        """Prints them for people, and writes them for bench/run.py."""
        for table in self.tables:
            lines = [table["columns"], *table["rows"]]
            widths = [max(len(line[i]) for line in lines) for i in range(len(table["columns"]))]
            print(f"{table['title']}\n{table['text']}\n")
            for line in lines:
                print("  ".join(cell.ljust(width) for cell, width in zip(line, widths)).rstrip())
            print()
        for bar in self.bars:
            print(f"{bar['what']}: {bar['measured']} (bar {bar['bar']}): "
                  f"{'met' if bar['met'] else 'MISSED'}{', ' if bar['limit'] else ''}{bar['limit']}")
        if path:
            path.write_text(json.dumps({"tables": self.tables, "bars": self.bars, "readme": self.readme}, indent=2) + "\n", encoding="utf-8")


def parser(description, **more):
    from pathlib import Path
    made = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter, **more)
    made.add_argument("--build", type=Path, default=Path(__file__).resolve().parent.parent / "build/release")
    made.add_argument("--quick", action="store_true", help="only to see that it runs")
    made.add_argument("--json", type=Path, metavar="FILE", help="where to write the results as well")
    return made
