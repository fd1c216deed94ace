// Takes the probes out of a process's memory while that is saved.
#include <algorithm>
#include <cerrno>
#include <memory>
#include <string>
#include <thread>
#include <utility>

#include "exporter/base/log.h"
#include "exporter/discovery/discovery.h"
#include "exporter/processes/proc.h"

namespace gpusnoop::discovery {

namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr std::size_t max_released = 1024;
// How often the released processes are looked for.
constexpr seconds between_looks{1};
// How long one request waits for probes and calls to be gone, and how often it looks.
constexpr seconds patience_of_release{8};
constexpr milliseconds between_questions{20};

constexpr std::string_view held_reason = "released: a process that maps it is being checkpointed";

}  // namespace

Result<Discovery::Release> Discovery::release(std::vector<std::uint32_t> tgids,
                                              std::chrono::milliseconds time) {
    // Shared, as the thread may answer when this call has given up.
    const auto taken = std::make_shared<Result<>>();
    const auto asked = run_on_thread(
        [this, tgids, time, taken] { *taken = take_probes_from(tgids, Clock::now() + time); });
    if (!asked || !*taken) {
        return tl::unexpected(asked ? taken->error() : asked.error());
    }
    const auto until = Clock::now() + patience_of_release;
    const auto state = std::make_shared<Result<Release>>();
    while (true) {
        const auto looked =
            run_on_thread([this, tgids, state] { *state = state_of_release(tgids); });
        if (!looked) {
            return tl::unexpected(looked.error());
        }
        if (!*state || (*state)->is_complete() || Clock::now() >= until) {
            return *state;
        }
        std::this_thread::sleep_for(between_questions);
    }
}

Result<std::size_t> Discovery::take_back(std::vector<std::uint32_t> tgids) {
    // Shared, as the thread may answer when this call has given up.
    const auto given_back = std::make_shared<std::size_t>(0);
    const auto asked = run_on_thread([this, tgids = std::move(tgids), given_back] {
        for (const std::uint32_t tgid : tgids) {
            *given_back += end_release(tgid, "the client gave it back") ? 1 : 0;
        }
        look_at_all(false);
    });
    if (!asked) {
        return tl::unexpected(asked.error());
    }
    if (*given_back == 0) {
        return fail("no such process was released", ESRCH);
    }
    return *given_back;
}

Result<> Discovery::take_probes_from(const std::vector<std::uint32_t> &tgids,
                                     Clock::time_point until) {
    forget_changed();
    for (const std::uint32_t tgid : tgids) {
        const auto started = processes::start_time(tgid);
        if (!started && tgids.size() > 1) {
            continue;  // of a container: it has ended meanwhile
        }
        if (!started) {
            return fail("there is no process " + std::to_string(tgid), ESRCH);
        }
        if (!released_.has(tgid) && released_.processes().size() >= max_released) {
            return fail(std::to_string(max_released) + " processes are released already", EBUSY);
        }
        const auto mappings = kernel_.mappings->read(tgid);
        if (!mappings) {
            return tl::unexpected(mappings.error());
        }
        released_.add(tgid, {*started, until});
        progress_.note_released_processes(released_.processes().size());
        // By the file, as it may be mapped by a name that no attacher wants.
        for (const ebpf::Mapping &mapping : *mappings) {
            for (auto &[key, known] : known_) {
                if (key.second == mapping.file) {
                    released_.hold(mapping.file, tgid);
                    hold(key, known);
                }
            }
        }
        log::info("probes removed from a process",
                  {{"pid", std::to_string(tgid)},
                   {"files", std::to_string(released_.files_of(tgid).size())}});
    }
    return {};
}

// Whether the file is not to be attached to.
bool Discovery::is_held(const ebpf::Mapping &mapping) {
    if (released_.is_empty()) {
        return false;
    }
    if (released_.has(mapping.tgid)) {
        released_.hold(mapping.file, mapping.tgid);
    }
    return released_.holds(mapping.file);
}

void Discovery::hold(const Key &key, Known &known) {
    if (known.is_attached()) {
        known.file.reset();
        known.path.clear();
        key.first->detach(key.second, true);  // no probe is to be left: none is taken back
    }
    if (known.opening) {
        openings_.opener->abandon(*known.opening);
        known.opening.reset();
    }
    openings_.keys.erase(key);
    known.next.reset();
    known.awaits_turn = known.settled = known.is_due = false;
    found_.failed(*key.first, key.second, std::string(held_reason));
}

Result<Discovery::Release> Discovery::state_of_release(const std::vector<std::uint32_t> &tgids) {
    Release state;
    std::set<FileId> files;
    for (const std::uint32_t tgid : tgids) {
        const auto held = released_.files_of(tgid);
        files.insert(held.begin(), held.end());
        const auto threads = kernel_.list->threads_in_probed_calls(tgid);
        if (!threads && threads.error().code != ESRCH) {
            return tl::unexpected(threads.error());
        }
        state.threads_in_calls += threads.value_or(0);
    }
    state.files = files.size();
    state.files_with_probes = static_cast<std::size_t>(
        std::ranges::count_if(files, [this](const FileId &file) { return must_wait_for(file); }));
    return state;
}

bool Discovery::end_release(std::uint32_t tgid, std::string_view reason) {
    if (!released_.remove(tgid)) {
        return false;
    }
    progress_.note_released_processes(released_.processes().size());
    log::info("a process can be traced again",
              {{"pid", std::to_string(tgid)}, {"reason", std::string(reason)}});
    return true;
}

void Discovery::end_old_releases() {
    if (released_.is_empty() || Clock::now() < look_at_released_at_) {
        return;
    }
    look_at_released_at_ = Clock::now() + between_looks;
    bool has_ended = false;
    for (const auto &[tgid, process] : std::map(released_.processes())) {
        const bool is_over = Clock::now() >= process.until;
        if (is_over || processes::presence(tgid, process.started) == processes::Presence::gone) {
            end_release(tgid, is_over ? "the time limit expired" : "the process ended");
            has_ended = true;
        }
    }
    if (has_ended) {
        look_at_all(false);
    }
}

}  // namespace gpusnoop::discovery
