// The metric families of one probe, in the order of the page.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "exporter/series/family.h"

namespace gpusnoop::series {

// The budget of a family, by its full name: how many label sets it shows.
using Budget = std::function<std::uint32_t(std::string_view)>;

// The labels that say which processes a series is of.
[[nodiscard]] std::vector<Label> process_labels(bool pid_label);

// References to its families are valid as long as the set. Not thread-safe, like Family.
class FamilySet {
public:
    // With `pid_label`, each family has the label pid, too.
    FamilySet(Budget budget, bool pid_label);

    // Names are without the prefix gpusnoop_. `own` labels follow the process's. Values and
    // histograms' `bounds` are divided by `divisor` on the page.
    Family &counter(std::string name, std::string help, std::vector<Label> own, double divisor = 1);
    Family &gauge(std::string name, std::string help, std::vector<Label> own, double divisor = 1);
    Family &histogram(std::string name, std::string help, std::vector<Label> own,
                      std::vector<std::uint64_t> bounds, double divisor = 1);
    // A family without the process's labels, under its full name.
    Family &add(Description description);

    // Rebalances the families that are over their budget. Call it once a second.
    void rebalance();
    // Forgets every label set of the owner, in all families.
    void remove(Owner owner);

    [[nodiscard]] std::vector<FamilySnapshot> snapshots() const;
    // Label sets that did not fit, by family.
    [[nodiscard]] std::map<std::string, std::uint64_t> folded() const;

    [[nodiscard]] std::deque<Family> &families() { return families_; }

private:
    Family &add(std::string name, std::string help, Type type, std::vector<Label> own,
                double divisor, std::vector<std::uint64_t> bounds);

    Budget budget_;
    bool pid_label_;
    std::deque<Family> families_;
};

// Families that are made anew for each page, such as gauges of running processes: what they folded
// at most on any page.
class PageFamilies {
public:
    // Adds the families of one page to its snapshots.
    void add(const FamilySet &page, std::vector<FamilySnapshot> &snapshots);
    // Adds the label sets that did not fit, by family.
    void add_to(std::map<std::string, std::uint64_t> &folded) const;

private:
    std::map<std::string, std::uint64_t> folded_;
};

}  // namespace gpusnoop::series
