// Random work on a family, compared after every step with a model that is a plain map.
#include <catch2/catch_test_macros.hpp>
#include <map>
#include <random>
#include <string>

#include "tests/unit/sanitized.h"
#include "tests/unit/series/family_page.h"

using namespace gpusnoop::series;

namespace {

LabelValues without_grid(LabelValues labels) {
    labels[2] = "other";
    return labels;
}

LabelValues other_of(const LabelValues &labels) {
    return {"other", "other", "other", labels[3]};
}

class Random {
public:
    explicit Random(std::uint64_t seed) : engine_(seed) {}
    std::uint64_t below(std::uint64_t end) { return engine_() % end; }
    bool one_in(std::uint64_t times) { return below(times) == 0; }

private:
    std::mt19937_64 engine_;
};

std::string name_of(Owner owner) {
    return "p" + std::to_string(owner);
}

// Labels are comm (of the owner), kernel, grid, gpu. Given which label sets are shown, says what
// their values must be. Knows no weights.
class Model {
public:
    // New label sets are at 0.
    void mention(const Page &page) {
        for (const auto &[labels, value] : page) {
            expected_.try_emplace(labels, 0);
        }
    }
    void add(const LabelValues &labels, std::uint64_t amount) {
        expected_[shown_for(labels)] += amount;
    }
    void remove(Owner owner) {
        std::erase_if(expected_,
                      [&](const auto &entry) { return entry.first[0] == name_of(owner); });
    }
    // How many label sets left.
    int rebalance(const Page &page) {
        const Page before = expected_;
        std::erase_if(expected_, [&](const auto &entry) { return !page.contains(entry.first); });
        mention(page);
        std::map<LabelValues, Page> into_new;  // what may have gone into a set that was made for it
        int left = 0;
        for (const auto &[labels, value] : before) {
            if (page.contains(labels)) {
                continue;
            }
            left++;
            const LabelValues coarse = without_grid(labels);
            if (labels != coarse && page.contains(coarse) && !before.contains(coarse)) {
                into_new[coarse][labels] = value;
            } else {
                expected_[shown_for(labels)] += value;
            }
        }
        for (const auto &[coarse, parts] : into_new) {
            std::uint64_t sum = 0;
            for (const auto &[labels, value] : parts) {
                sum += value;
            }
            // A candidate until now: it begins at 0, and what left before it came is in "other".
            expected_[page.at(coarse) == 0 ? other_of(coarse) : coarse] += sum;
        }
        return left;
    }
    [[nodiscard]] const Page &expected() const { return expected_; }

private:
    [[nodiscard]] LabelValues shown_for(const LabelValues &labels) const {
        if (expected_.contains(labels)) {
            return labels;
        }
        const LabelValues coarse = without_grid(labels);
        return expected_.contains(coarse) ? coarse : other_of(labels);
    }

    Page expected_;
};

}  // namespace

TEST_CASE("every value on the page is what was added while it was shown") {
    for (std::uint64_t seed = 0; seed < std::uint64_t{random_rounds(4)}; seed++) {
        CAPTURE(seed);
        Random random(seed);
        // At most 150 label sets with shapes and 30 without: as many as are shown or candidates.
        constexpr std::uint32_t budget = 40;
        Family family(launches(), budget);
        Model model;
        std::map<LabelValues, std::pair<Slot, Owner>> slots;
        int swaps = 0;
        int removals = 0;
        std::uint64_t hot = 0;
        for (int step = 0; step < 4'000; step++) {
            CAPTURE(step);
            if (random.one_in(300)) {
                hot = random.below(5);
            }
            if (random.one_in(20)) {
                family.rebalance();
                const int left = model.rebalance(page_of(family));
                REQUIRE(left <= 16);
                swaps += left;
            } else if (random.one_in(500)) {
                const auto owner = static_cast<Owner>(1 + random.below(3));
                family.remove(owner);
                model.remove(owner);
                std::erase_if(slots,
                              [&](const auto &entry) { return entry.second.second == owner; });
                removals++;
            } else {
                const auto owner = static_cast<Owner>(1 + random.below(3));
                const std::uint64_t kernel = random.below(5);
                // Now and then without a shape, as a process with too many shapes is counted.
                const std::uint64_t grid = random.below(random.one_in(10) ? 6 : 5);
                const LabelValues labels = {name_of(owner), "k" + std::to_string(kernel),
                                            grid == 5 ? "other" : std::to_string(grid),
                                            std::to_string(random.below(2))};
                const auto known = slots.find(labels);
                const Slot slot =
                    known != slots.end() ? known->second.first : family.slot(owner, labels);
                slots.try_emplace(labels, slot, owner);
                model.mention(page_of(family));
                const std::uint64_t amount = kernel == hot ? random.below(1'000) : 1;
                family.add(slot, amount);
                model.add(labels, amount);
            }
            const Page page = page_of(family);
            REQUIRE(page == model.expected());
            REQUIRE(page.size() <= budget + 2);
            REQUIRE(family.candidates() <= 4 * budget);
        }
        CHECK(swaps > 20);
        CHECK(removals > 0);
    }
}

TEST_CASE("sums are exact and nothing decreases while label sets are forgotten") {
    for (std::uint64_t seed = 0; seed < std::uint64_t{random_rounds(4)}; seed++) {
        CAPTURE(seed);
        Random random(seed);
        constexpr std::uint32_t budget = 12;
        Family family(launches(), budget);
        std::map<LabelValues, std::pair<Slot, Owner>> slots;
        std::map<std::string, std::uint64_t> sums;  // by gpu
        Page truth;
        Page before;
        int forgotten = 0;
        for (int step = 0; step < 4'000; step++) {
            CAPTURE(step);
            bool rebalanced = false;
            if (random.one_in(50)) {
                family.rebalance();
                rebalanced = true;
            } else if (random.one_in(1'000)) {
                const auto owner = static_cast<Owner>(1 + random.below(3));
                for (const auto &[labels, value] : before) {
                    if (labels[0] == name_of(owner)) {
                        sums[labels[3]] -= value;
                    }
                }
                family.remove(owner);
                std::erase_if(slots,
                              [&](const auto &entry) { return entry.second.second == owner; });
                std::erase_if(before,
                              [&](const auto &entry) { return entry.first[0] == name_of(owner); });
            } else {
                const auto owner = static_cast<Owner>(1 + random.below(3));
                // Few are asked for often, most once.
                const std::uint64_t range = random.one_in(2) ? 10 : 100'000;
                const LabelValues labels = {
                    name_of(owner), "k" + std::to_string(random.below(range)),
                    std::to_string(random.below(3)), std::to_string(random.below(2))};
                auto known = slots.find(labels);
                if (known == slots.end()) {
                    known = slots.try_emplace(labels, family.slot(owner, labels), owner).first;
                } else if (random.one_in(5)) {
                    const Slot again = family.slot(owner, labels);
                    forgotten += again != known->second.first;
                    known->second.first = again;
                }
                const std::uint64_t amount = range == 10 ? random.below(200) : 1;
                family.add(known->second.first, amount);
                sums[labels[3]] += amount;
                truth[labels] += amount;
                truth[without_grid(labels)] += amount;
            }
            const Page page = page_of(family);
            std::map<std::string, std::uint64_t> shown;
            int too_much = 0;
            for (const auto &[labels, value] : page) {
                shown[labels[3]] += value;
                too_much += labels[0] != "other" && value > truth[labels];
            }
            REQUIRE(shown == sums);
            REQUIRE(too_much == 0);
            int decreased = 0;
            int left = 0;
            for (const auto &[labels, value] : before) {
                const auto now = page.find(labels);
                decreased += now != page.end() && now->second < value;
                left += now == page.end();
                REQUIRE((now != page.end() || labels[0] != "other"));
            }
            REQUIRE(decreased == 0);
            REQUIRE(left <= (rebalanced ? 16 : 0));
            REQUIRE(page.size() <= budget + 2);
            REQUIRE(family.candidates() <= 4 * budget);
            before = page;
        }
        CHECK(forgotten > 10);
    }
}
