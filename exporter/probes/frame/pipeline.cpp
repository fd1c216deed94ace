#include "exporter/probes/frame/pipeline.h"

#include <malloc.h>

#include <algorithm>
#include <cstddef>

#include "exporter/processes/arguments.h"
#include "exporter/system/priority.h"

namespace gpusnoop::probes {

namespace {

// So often does the kernel wake a pipeline that rests, however many records there are.
constexpr std::chrono::milliseconds between_wakeups{100};

template <typename Answer>
void answer(std::vector<std::promise<Answer>> &waiting, const Answer &with) {
    for (std::promise<Answer> &one : waiting) {
        one.set_value(with);
    }
}

// A family that several probes have is one on the page: its parts follow each other.
void bring_together(std::vector<series::FamilySnapshot> &families) {
    std::map<std::string_view, std::size_t> first;
    for (const series::FamilySnapshot &family : families) {
        first.try_emplace(family.description->name, first.size());
    }
    std::ranges::stable_sort(families, {}, [&](const series::FamilySnapshot &family) {
        return first.at(family.description->name);
    });
}

}  // namespace

Pipeline::Pipeline(std::vector<Probe *> probes, std::chrono::milliseconds drain_interval,
                   std::function<void()> after_round, Rest rest)
    : probes_(std::move(probes)),
      drain_interval_(drain_interval),
      after_round_(std::move(after_round)),
      rest_(std::move(rest)) {
    for (const Probe *probe : probes_) {
        wakeups_.push_back(probe->wakeups());
        for (const int descriptor : wakeups_.back().descriptors) {
            sleeper_.watch(descriptor);
        }
    }
    thread_ = std::jthread([this](const std::stop_token &stop) { run(stop); });
}

Result<Snapshot> Pipeline::snapshot(std::chrono::milliseconds patience) {
    return ask(waiting_for_snapshot_, patience);
}

Result<std::vector<ApiPage>> Pipeline::api_pages(std::string_view name,
                                                 std::chrono::milliseconds patience) {
    return ask(waiting_for_api_pages_, patience, name);
}

Result<Overview> Pipeline::overview(std::chrono::milliseconds patience) {
    return ask(waiting_for_overview_, patience);
}

template <typename Answer>
Result<Answer> Pipeline::ask(Waiting<Answer> &waiting, std::chrono::milliseconds patience,
                             std::string_view name) {
    std::future<Answer> answer;
    {
        const std::lock_guard lock(mutex_);
        answer = waiting.emplace_back().get_future();
        if (!name.empty()) {
            api_page_names_.emplace(name);
        }
    }
    sleeper_.wake();
    if (answer.wait_for(patience) != std::future_status::ready) {
        return fail("the aggregation did not answer in time");
    }
    try {
        return answer.get();
    } catch (const std::future_error &) {
        return fail("the exporter is stopping");
    }
}

Snapshot Pipeline::take() {
    Snapshot snapshot;
    for (Probe *probe : probes_) {
        auto families = probe->report();
        snapshot.families.insert(snapshot.families.end(), std::make_move_iterator(families.begin()),
                                 std::make_move_iterator(families.end()));
        for (const auto &[family, folded] : probe->folded()) {
            snapshot.folded[family] += folded;
        }
    }
    bring_together(snapshot.families);
    return snapshot;
}

std::vector<ApiPage> Pipeline::take_api_pages(const Names &names) {
    std::vector<ApiPage> all;
    for (const std::string &name : names) {
        for (Probe *probe : probes_) {
            auto pages = probe->api_pages(name);
            all.insert(all.end(), std::make_move_iterator(pages.begin()),
                       std::make_move_iterator(pages.end()));
        }
    }
    return all;
}

Overview Pipeline::take_overview() const {
    Overview overview;
    for (const Probe *probe : probes_) {
        probe->add_to(overview);
    }
    return overview;
}

// What label sets leave behind lies between those that stay, where the C library keeps it. It takes
// 0.2 ms at 1000 series, and 3 ms at 100,000.
void Pipeline::give_back_memory() {
    constexpr std::chrono::minutes interval{1};
    constexpr std::chrono::seconds unused{10};
    const auto now = std::chrono::steady_clock::now();
    if (now - gave_back_ >= interval) {
        gave_back_ = now;
        ::malloc_trim(0);
        processes::rest_reader_of_arguments(unused);
    }
}

void Pipeline::set_resting(bool is_resting) {
    if (std::exchange(is_resting_, is_resting) == is_resting) {
        return;
    }
    for (const ebpf::Wakeups &wakeups : wakeups_) {
        wakeups.want(is_resting);
    }
    for (Probe *probe : probes_) {
        probe->set_resting(is_resting);
    }
}

// A program can read how it is to submit a record just before a rest begins. The record is there
// when the descriptors are looked at, which the kernel does not do before `between_wakeups`.
void Pipeline::sleep() {
    const auto now = Sleeper::Clock::now();
    if (is_resting_) {
        sleeper_.sleep(now + between_wakeups, now + std::max(rest_.longest, drain_interval_));
    } else {
        sleeper_.sleep(now + drain_interval_, now + drain_interval_);
    }
}

void Pipeline::run(const std::stop_token &stop) {
    (void)prefer_this_thread(counting_niceness);  // `doctor` says whether that is allowed
    const std::stop_callback wake(stop, [this] { sleeper_.wake(); });
    while (!stop.stop_requested()) {
        Waiting<Snapshot> for_snapshot;
        Waiting<std::vector<ApiPage>> for_api_pages;
        Waiting<Overview> for_overview;
        Names names;
        set_resting(rest_.is_now());
        sleep();
        {
            const std::lock_guard lock(mutex_);
            for_snapshot.swap(waiting_for_snapshot_);
            for_api_pages.swap(waiting_for_api_pages_);
            for_overview.swap(waiting_for_overview_);
            names.swap(api_page_names_);
        }
        for (Probe *probe : probes_) {
            probe->drain();
        }
        if (!for_snapshot.empty()) {
            answer(for_snapshot, take());
        }
        if (!for_api_pages.empty()) {
            answer(for_api_pages, take_api_pages(names));
        }
        if (!for_overview.empty()) {
            answer(for_overview, take_overview());
        }
        give_back_memory();
        if (after_round_) {
            after_round_();
        }
    }
}

}  // namespace gpusnoop::probes
