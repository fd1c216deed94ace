"""By how much a cost grows with the load."""
import math
import statistics


def exponent(load_and_cost):
    """The b of cost = a * load**b that fits the pairs best, by least squares of the logarithms: 0 does not depend on
    the load, 1 is in proportion to it. NaN where there are no two loads, or a number is not above 0. The same as
    growth_exponent() in bench/results/statistics.h."""
    loads = [load for load, _ in load_and_cost]
    costs = [cost for _, cost in load_and_cost]
    if len(set(loads)) < 2 or min(loads + costs) <= 0:
        return math.nan
    return statistics.linear_regression([math.log(one) for one in loads], [math.log(one) for one in costs]).slope


def exponent_text(load_and_cost):
    """For a cell of a table: empty where there is none."""
    found = exponent(load_and_cost)
    return "" if math.isnan(found) else f"{found:.2f}"
