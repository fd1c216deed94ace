#include "exporter/probes/in_flight/probe.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "exporter/base/log.h"
#include "exporter/base/rate_limit.h"
#include "exporter/base/result.h"
#include "exporter/probes/frame/bpf/bpf_probe.h"
#include "exporter/probes/frame/budget.h"
#include "exporter/probes/frame/calls/open_calls.h"
#include "exporter/probes/frame/overview.h"
#include "exporter/probes/frame/reports/report_facts.h"
#include "exporter/probes/in_flight/api.h"
#include "exporter/probes/in_flight/calls.h"
#include "exporter/probes/in_flight/stacks.h"
#include "exporter/probes/in_flight/watch.h"
#include "exporter/system/machine.h"

namespace gpusnoop::probes {

namespace {

using std::chrono::nanoseconds;

constexpr std::size_t max_unreturned = 100;
constexpr std::uint32_t max_logged_per_second = 10;

// The iterators of bpf/in_flight/ for each probe.
constexpr std::size_t iterators = 2;

// A thread ends once.
bool is_same(const UnreturnedCall &one, const UnreturnedCall &other) {
    constexpr std::uint64_t apart_ns = 1'000'000'000;
    const auto [first, last] = std::minmax(one.ended_ns, other.ended_ns);
    return one.tid == other.tid && one.sp == other.sp && last - first < apart_ns;
}

class InFlightProbe final : public Probe {
public:
    InFlightProbe(const config::Config &config, const Shared &shared)
        : min_age_(config.of<InFlightConfig>().min_age),
          budget_(budget_of(config)),
          report_facts_(shared.report_facts),
          followers_(shared.call_followers) {}

    Result<> start() override;
    [[nodiscard]] StartTurn start_turn() const override { return StartTurn::last; }
    void drain() override;
    std::vector<series::FamilySnapshot> report() override;
    [[nodiscard]] std::map<std::string, std::uint64_t> folded() const override { return folded_; }
    [[nodiscard]] std::vector<ApiPage> api_pages(std::string_view name) override;
    void add_to(Overview &overview) const override;
    [[nodiscard]] Health health() const override { return state_.health(); }

private:
    Result<std::string> find_sources();
    [[nodiscard]] OpenCalls read(bool with_threads) const;
    // The oldest first.
    [[nodiscard]] OpenCalls read_sorted(bool with_threads) const;
    void log_failure(const std::string &probe, const std::string &reason) const;
    void note(UnreturnedCall call, nanoseconds now);

    std::chrono::milliseconds min_age_;
    series::Budget budget_;
    ReportFactsPtr report_facts_;
    AttachState state_{"in_flight"};
    const CallFollowersPtr followers_;
    CallFollowers sources_;  // those whose calls can be listed
    std::shared_ptr<InFlightWatch> stacks_;
    std::deque<UnreturnedCall> unreturned_;  // the newest first
    RateLimit log_limit_{max_logged_per_second};
    mutable LineLimit failures_;  // each page reads the calls again
    std::map<std::string, std::uint64_t> folded_;
};

// The names of the sources, or why there is none.
Result<std::string> InFlightProbe::find_sources() {
    std::string names;
    Error last{"neither the probe cuda nor the probe functions is enabled"};
    for (const auto &[probe, follower] : *followers_) {
        if (const auto tried = follower->open_calls({.min_age = min_age_})) {
            sources_.emplace_back(probe, follower);
            names += (names.empty() ? "" : ", ") + std::string(probe);
        } else {
            last = tried.error();
        }
    }
    return names.empty() ? tl::unexpected(last) : Result<std::string>(names);
}

Result<> InFlightProbe::start() {
    const auto names = find_sources();
    if (!names) {
        const auto down =
            fail_unsupported("no call in flight can be listed: " + names.error().message);
        state_.down(down.value());
        return down;
    }
    if (auto stacks = InFlightStacks::start()) {
        const std::shared_ptr<InFlightStacks> shared = std::move(*stacks);
        stacks_ = std::make_shared<InFlightWatch>(
            [shared](const OpenCalls &open) { return shared->of(open); });
    } else {
        log::warn("cannot show where threads hang",
                  {{"probe", "in_flight"}, {"reason", stacks.error().message}});
    }
    report_facts_->sources().in_flight = true;
    state_.up(iterators * sources_.size(), "reading the threads of " + *names);
    return {};
}

OpenCalls InFlightProbe::read(bool with_threads) const {
    OpenCalls open;
    for (const auto &[probe, follower] : sources_) {
        if (auto calls =
                follower->open_calls({.min_age = min_age_, .with_threads = with_threads})) {
            join(open, std::move(*calls));
        } else {
            log_failure(std::string(probe), calls.error().message);
        }
    }
    return open;
}

OpenCalls InFlightProbe::read_sorted(bool with_threads) const {
    OpenCalls open = read(with_threads);
    sort_by_age(open.calls);
    return open;
}

void InFlightProbe::log_failure(const std::string &probe, const std::string &reason) const {
    if (const auto suppressed = failures_.due(probe)) {
        log::warn("cannot list the calls in flight",
                  {{"probe", probe}, {"reason", reason}, {"not_logged_before", *suppressed}});
    }
}

void InFlightProbe::drain() {
    for (const auto &[probe, follower] : *followers_) {
        for (UnreturnedCall &call : follower->take_unreturned()) {
            note(std::move(call), now_on(CLOCK_MONOTONIC));
        }
    }
}

// A call that two probes follow is noted once, in the words of the probe that knows the file.
void InFlightProbe::note(UnreturnedCall call, nanoseconds now) {
    for (UnreturnedCall &known : unreturned_) {
        if (is_same(known, call)) {
            merge(known, std::move(call));
            return;
        }
    }
    report_facts_->add_hanging(call.pid, now);
    if (log_limit_.allow(now)) {
        log::info("a thread ended inside a call that had not returned",
                  {{"probe", "in_flight"},
                   {"function", call.function},
                   {"library", call.library},
                   {"pid", call.pid},
                   {"tid", call.tid},
                   {"comm", call.comm},
                   {"age_seconds", static_cast<double>(call.ended_ns - call.began_ns) / 1e9},
                   {"signal", call.signal},
                   {"stack", stacks_ == nullptr ? "" : stacks_->stack_of(call)}});
    }
    unreturned_.push_front(std::move(call));
    while (unreturned_.size() > max_unreturned) {
        unreturned_.pop_back();
    }
}

std::vector<series::FamilySnapshot> InFlightProbe::report() {
    if (sources_.empty()) {
        return {};
    }
    series::FamilySet set(budget_, true);
    const InFlightGauges gauges = make_in_flight_gauges(set);
    const OpenCalls open = read(false);
    const auto now_ns = static_cast<std::uint64_t>(now_on(CLOCK_MONOTONIC).count());
    add_in_flight(gauges, open, now_ns, [this](const OpenCall &call) {
        return stacks_ == nullptr ? "" : stacks_->site_of(call);
    });
    if (stacks_ != nullptr && stacks_->keep_only(open.calls, now_ns)) {
        stacks_->look_at(read_sorted(true), now_ns);
    }
    // Each page has its own gauges, so this is the largest number folded on any one page.
    for (const auto &[family, folded] : set.folded()) {
        std::uint64_t &most = folded_[family];
        most = std::max(most, folded);
    }
    return set.snapshots();
}

std::vector<ApiPage> InFlightProbe::api_pages(std::string_view name) {
    if (sources_.empty() || name != in_flight_page_name) {
        return {};
    }
    const nanoseconds now = now_on(CLOCK_MONOTONIC);
    return {in_flight_page({.open = read_sorted(stacks_ != nullptr),
                            .unreturned = {unreturned_.begin(), unreturned_.end()},
                            .now = now,
                            .to_realtime = now_on(CLOCK_REALTIME) - now,
                            .min_age = min_age_,
                            .stacks = stacks_})};
}

void InFlightProbe::add_to(Overview &overview) const {
    if (sources_.empty()) {
        return;
    }
    InFlightOverview &shown = overview.in_flight.emplace();
    const OpenCalls open = read_sorted(stacks_ != nullptr);
    shown.count = open.count();
    shown.oldest = {open.calls.begin(),
                    open.calls.begin() + static_cast<std::ptrdiff_t>(
                                             std::min(open.calls.size(), max_overview_in_flight))};
    shown.now_ns = static_cast<std::uint64_t>(now_on(CLOCK_MONOTONIC).count());
    shown.min_age = min_age_;
    if (stacks_ != nullptr && !shown.oldest.empty()) {
        shown.stacks = [stacks = stacks_, threads = threads_of(shown.oldest, open)] {
            std::map<std::uint32_t, std::vector<symbols::Frame>> by_thread;
            for (auto &[tid, thread] : stacks->of(threads)) {
                by_thread.emplace(tid, std::move(thread.stack));
            }
            return by_thread;
        };
    }
}

std::vector<series::FamilySet> declare_in_flight() {
    std::vector<series::FamilySet> sets;
    (void)make_in_flight_gauges(sets.emplace_back(one_for_each, true));
    return sets;
}

constexpr std::string_view in_flight_pages[] = {in_flight_page_name};

}  // namespace

constinit const ProbeKind in_flight_kind = {
    .name = "in_flight",
    .title = "Calls in flight",
    .make = make_if_enabled<InFlightProbe, InFlightConfig>,
    .read = read_in_flight,
    .declare = declare_in_flight,
    .api_pages = in_flight_pages,
};

}  // namespace gpusnoop::probes
