// Finds the files that processes use.
#include "exporter/discovery/discovery.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <tuple>

#include "exporter/base/log.h"
#include "exporter/ebpf/attach/mapper_locks.h"
#include "exporter/system/priority.h"

namespace gpusnoop::discovery {

namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

// How long files that answer slowly may delay all others, in one round.
constexpr milliseconds patience_in_round{50};
// How long new processes may be examined before the events are read again.
constexpr milliseconds looks_in_round{50};
// Processes that did not answer, asked again: each takes some microseconds if it is left alone.
constexpr std::size_t silent_in_round = 256;
// A storm of mappings wakes the thread no more often than this on average. A program that starts
// maps its libraries within a few such times, so some rounds may follow each other at once.
constexpr milliseconds between_rounds{2};
constexpr int rounds_at_once = 8;
// While a file is opened or work is left, while a process uses a wanted file, and else.
constexpr milliseconds next_round{10};
constexpr milliseconds next_idle_round{200};
constexpr milliseconds next_round_at_rest{1000};

}  // namespace

Discovery::Discovery(Settings settings, std::vector<Attacher *> attachers)
    : settings_(std::move(settings)), attachers_(std::move(attachers)) {}

Discovery::~Discovery() {
    thread_.request_stop();
    sleeper_.wake();
}

Result<std::unique_ptr<Discovery>> Discovery::open(Settings settings,
                                                   std::vector<Attacher *> attachers) {
    std::unique_ptr<Discovery> discovery(new Discovery(std::move(settings), std::move(attachers)));
    auto mappings = ebpf::MappingList::open();
    if (!mappings) {
        return tl::unexpected(mappings.error());
    }
    discovery->kernel_.list = std::move(*mappings);
    discovery->kernel_.mappings =
        std::make_unique<processes::MappingReader>(*discovery->kernel_.list);
    discovery->kernel_.grace_period = ebpf::GracePeriod::open();
    ebpf::prepare_mapper_locks();
    discovery->kernel_.named =
        std::make_unique<NamedFiles>(*discovery->kernel_.list, *discovery->kernel_.mappings);
    const Fd self(::open("/proc/self/exe", O_RDONLY | O_CLOEXEC));
    if (const auto own = discovery->kernel_.list->identify(self.get()); self && !own) {
        log::error(
            "process ids of the host are not visible: run the exporter in the host's PID namespace "
            "(--pid=host, hostPID)",
            {{"reason", own.error().message}});
        discovery->progress_.note_problem(
            "process ids of the host are not visible, so processes cannot be identified: run the "
            "exporter with --pid=host or hostPID: true");
    }
    discovery->openings_.opener = std::make_unique<processes::FileOpener>(*discovery->kernel_.list);
    auto events = ebpf::MmapEvents::open();
    if (events) {
        discovery->kernel_.events = std::move(*events);
        discovery->sleeper_.watch(discovery->kernel_.events->readiness());
    } else {
        log::warn(
            "new processes are found only by the rescan",
            {{"reason", events.error().message},
             {"rescan_interval_ms", std::to_string(discovery->settings_.rescan_interval.count())}});
    }
    return discovery;
}

void Discovery::start() {
    thread_ = std::jthread([this](const std::stop_token &stop) { run(stop); });
    while (!progress_.wait_until_ready(milliseconds(100))) {
        if (progress_.is_stuck()) {
            log::warn("the first scan of all processes is slow: it continues in the background");
            return;
        }
    }
}

bool Discovery::wanted(std::string_view name) const {
    return std::ranges::any_of(attachers_, [&](const Attacher *one) { return one->wants(name); });
}

void Discovery::run(const std::stop_token &stop) {
    // On a busy machine, calls are lost until a library is attached to. The children that it starts
    // have the same niceness.
    (void)prefer_this_thread(counting_niceness);
    openings_.stop = stop;
    openings_.turn_until = Clock::now() + turn;
    look_at_all(true);
    const auto ready_at = Clock::now() + seconds(5);  // at the latest; slow files may take longer
    auto rescan_at = Clock::now() + settings_.rescan_interval;
    auto look_after_loss_at = Clock::now();
    auto rounds_until = Clock::now();  // when those so far have had their time
    while (!stop.stop_requested()) {
        openings_.turn_until = Clock::now() + turn;
        rounds_until = std::max(rounds_until, Clock::now()) + between_rounds;
        progress_.come_round();
        hear_of_mappings();
        look_at_changed();
        go_on_opening();
        examine_unnamed();
        note_mounts();
        if (!progress_.is_ready() && (!offers_.is_opening() || Clock::now() >= ready_at)) {
            progress_.first_look_is_over();
        }
        openings_.opener->rest(seconds(10));
        kernel_.mappings->rest(seconds(10));
        run_tasks();
        end_old_releases();
        const auto now = Clock::now();
        if (now >= rescan_at) {
            look_at_all(true);
            rescan_at = now + settings_.rescan_interval;
        } else if (news_.missed_some && now >= look_after_loss_at) {
            // A storm of mappings must not make us look without a pause, nor keep us from looking.
            look_at_all(false);
            const auto ended = Clock::now();
            look_after_loss_at =
                ended + std::max<Clock::duration>(milliseconds(50), 9 * (ended - now));
        }
        sleep(rounds_until, rescan_at);
    }
    for (const Key &key : offers_.busy()) {
        abandon(offers_.at(key).opening);
    }
    abandon(unnamed_.opening);
}

void Discovery::sleep(Clock::time_point rounds_until, Clock::time_point rescan_at) {
    const bool has_work = !offers_.busy().empty() || !news_.processes.empty() ||
                          news_.missed_some || unnamed_.opening || unnamed_.files.has_work();
    const auto until = Clock::now() + (offers_.awaits_turn()   ? Clock::duration::zero()
                                       : has_work              ? next_round
                                       : progress_.is_in_use() ? next_idle_round
                                                               : next_round_at_rest);
    sleeper_.sleep(rounds_until - rounds_at_once * between_rounds, std::min(until, rescan_at));
}

void Discovery::hear_of_mappings() {
    if (!kernel_.events) {
        return;
    }
    const Turns::Spending nobodys(shares_.turns, std::nullopt);  // they are of many processes
    const std::uint64_t dropped = kernel_.events->read(
        [&](std::uint32_t tgid, std::string_view path, std::chrono::nanoseconds at) {
            if (const std::string_view name = ebpf::mapped_name(path); wanted(name)) {
                note_use();
                news_.processes.insert(tgid);
                const auto first = news_.mapped_at.try_emplace({tgid, std::string(name)}, at).first;
                first->second = std::min(first->second, at);  // another CPU's may be older
            } else {
                unnamed_.files.has_mapped(tgid);
            }
        });
    news_.missed_some = news_.missed_some || dropped > 0;
}

void Discovery::note_use() {
    if (!progress_.is_in_use()) {
        progress_.note_use(true);
        settings_.on_use();
    }
}

// Some of them: a user can have thousands.
void Discovery::add_silent() {
    if (news_.silent.empty() || Clock::now() < news_.look_at_silent_at) {
        return;
    }
    news_.look_at_silent_at = Clock::now() + next_idle_round;
    for (std::size_t i = 0; i < silent_in_round && !news_.silent.empty(); i++) {
        auto next = news_.silent.upper_bound(news_.asked_of_silent);
        next = next == news_.silent.end() ? news_.silent.begin() : next;
        news_.asked_of_silent = *next;
        news_.processes.insert(news_.silent.extract(next));
    }
}

// Processes without failed files come first, and those last that did not answer: they may use up
// their user's share of time.
void Discovery::look_at_changed() {
    openings_.patience = patience_in_round;
    add_silent();
    if (news_.processes.empty()) {
        return;
    }
    forget_changed();
    std::vector<std::uint32_t> order(news_.processes.begin(), news_.processes.end());
    // Those with smaller ids may map something new in each round.
    std::ranges::rotate(order, std::ranges::upper_bound(order, news_.looked_at_last));
    shares_.turns.forget();
    if (!shares_.turns.is_even()) {
        std::ranges::stable_sort(order, {}, [this](std::uint32_t tgid) { return spent_on(tgid); });
    }
    std::ranges::stable_partition(
        order, [this](std::uint32_t tgid) { return !shares_.failures.has(tgid); });
    std::ranges::stable_partition(
        order, [this](std::uint32_t tgid) { return !kernel_.mappings->is_left_alone(tgid); });
    news_.processes.clear();
    shares_.failures.begin_look();
    const auto until = Clock::now() + looks_in_round;
    for (const std::uint32_t tgid : order) {
        if (Clock::now() < until) {
            look_at(tgid);
            news_.looked_at_last = tgid;
        } else {
            news_.processes.insert(tgid);
        }
    }
    progress_.note_unreadable_processes(kernel_.mappings->left_alone());
}

void Discovery::look_at(std::uint32_t tgid) {
    const auto spending = spend_on(tgid);
    const auto mappings = kernel_.mappings->read(tgid);
    if (!mappings && mappings.error().code == ETIMEDOUT) {
        news_.silent.insert(tgid);
        complain_of(tgid, mappings.error());
        return;
    }
    if (mappings) {
        hear_of_mappings();  // when each of them was made
        consider_all(*mappings);
        if (found_.has_users()) {
            note_use();
        }
    }
    news_.mapped_at.erase(news_.mapped_at.lower_bound({tgid, ""}),
                          news_.mapped_at.lower_bound({tgid + 1, ""}));
    if (!mappings) {
        complain_of(tgid, mappings.error());
    }
}

void Discovery::complain_of(std::uint32_t tgid, const Error &error) {
    if (const auto more = shares_.lines.due("cannot read the mappings of a process")) {
        log::warn("cannot read the mappings of a process", {{"pid", std::to_string(tgid)},
                                                            {"reason", error.message},
                                                            {"more_since_last_line", *more}});
    }
}

// Limited, because any user can have many bad files with a library's name.
void Discovery::complain(std::string_view what, const ebpf::Mapping &mapping, const Error &error) {
    if (const auto more = shares_.lines.due(mapping.name + ": " + error.message)) {
        log::warn(what, {{"library", mapping.name},
                         {"pid", mapping.is_by_process() ? std::to_string(mapping.tgid) : ""},
                         {"reason", error.message},
                         {"more_since_last_line", *more}});
    }
}

// Considers every wanted library, and the programs of the processes that map one: a library may be
// linked into a program. Libraries that others call inside come last, see Attacher::is_inner().
void Discovery::consider_all(const std::vector<ebpf::Mapping> &mappings) {
    std::set<std::pair<Attacher *, std::uint32_t>> users;
    std::set<std::uint32_t> processes;  // these users
    // A process can map a file tens of thousands of times: the first one will do.
    std::set<std::tuple<Attacher *, FileId, std::uint32_t>> considered;
    std::vector<std::pair<Attacher *, const ebpf::Mapping *>> inner;
    for (const ebpf::Mapping &mapping : mappings) {
        for (Attacher *attacher : attachers_) {
            if (!attacher->wants(mapping.name) &&
                !unnamed_.files.is_wanted(*attacher, mapping.file)) {
                continue;
            }
            if (!considered.emplace(attacher, mapping.file, mapping.tgid).second) {
                continue;
            }
            users.emplace(attacher, mapping.tgid);
            processes.insert(mapping.tgid);
            if (attacher->is_inner(mapping.name)) {
                inner.emplace_back(attacher, &mapping);
            } else {
                consider(mapping, *attacher);
            }
        }
    }
    for (const ebpf::Mapping &mapping : mappings) {
        for (Attacher *attacher : attachers_) {
            if (mapping.is_program && users.contains({attacher, mapping.tgid})) {
                consider(mapping, *attacher);
            }
        }
    }
    for (const auto &[attacher, mapping] : inner) {
        consider(*mapping, *attacher);
    }
    add_unnamed(mappings, processes);
}

void Discovery::look_at_all(bool timed) {
    news_.missed_some = false;
    openings_.patience = patience_in_round;
    forget_changed();
    const auto mappings = kernel_.mappings->read_all();
    if (!mappings) {
        log::warn("cannot read the mappings of all processes",
                  {{"reason", mappings.error().message}});
        return;
    }
    note_unreadable();
    const std::set<std::uint32_t> &unread = kernel_.mappings->unread();
    news_.silent.insert(unread.begin(), unread.end());
    shares_.failures.begin_look();
    if (timed) {
        unnamed_.files.begin_scan();
        shares_.failures.begin_rescan();
        offers_.begin_rescan();
    }
    found_.begin_look();
    hear_of_mappings();
    consider_all(*mappings);
    const std::set<FileId> kept = found_.end_look(unread);
    for (const auto &[key, file] : offers_.files()) {
        if (kept.contains(key.second)) {
            offers_.use(key, Clock::now());
        }
    }
    if (found_.has_users()) {
        note_use();
    } else if (timed && kernel_.events && news_.processes.empty() && news_.silent.empty() &&
               !news_.missed_some && kernel_.mappings->left_alone() == 0) {
        progress_.note_use(false);  // and who begins to use one is heard of
    }
    if (timed) {
        unnamed_.files.end_scan();
        look_at_named();
    }
    forget_unused();
}

Result<> Discovery::change(Attacher &attacher, std::function<bool()> change) {
    return run_on_thread([this, &attacher, change = std::move(change)] {
        if (change()) {
            offer_again(attacher);
        }
    });
}

Result<> Discovery::run_on_thread(std::function<void()> task) {
    std::future<void> done;
    {
        const std::lock_guard lock(tasks_.mutex);
        tasks_.waiting.push_back({std::move(task), {}});
        done = tasks_.waiting.back().done.get_future();
    }
    sleeper_.wake();
    if (done.wait_for(seconds(30)) != std::future_status::ready) {
        return fail("discovery is stuck: the change takes effect when it responds");
    }
    return {};
}

void Discovery::run_tasks() {
    std::vector<Task> tasks;
    {
        const std::lock_guard lock(tasks_.mutex);
        tasks.swap(tasks_.waiting);
    }
    for (Task &task : tasks) {
        task.run();
        task.done.set_value();
    }
}

// Includes files that no process maps at this moment: their probes must follow the new settings,
// too.
void Discovery::offer_again(Attacher &attacher) {
    forget_changed();
    shares_.failures.begin_rescan();
    unnamed_.files.examine_again();
    openings_.patience = patience_in_round;
    openings_.turn_until = Clock::time_point::max();
    for (const auto &[key, file] : offers_.files()) {
        if (key.first != &attacher) {
            continue;
        }
        offers_.offer_again(key);
        if (file.attached && !file.opening) {
            begin_to_open(ebpf::Mapping(file.attached->by), key);
        }
    }
    look_at_all(false);
    look_at_named();
    finish_opening();
}

}  // namespace gpusnoop::discovery
