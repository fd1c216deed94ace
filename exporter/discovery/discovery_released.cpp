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
        if (!held_.files.has(tgid) && held_.files.processes().size() >= max_released) {
            return fail(std::to_string(max_released) + " processes are released already", EBUSY);
        }
        const auto mappings = kernel_.mappings->read(tgid);
        if (!mappings) {
            return tl::unexpected(mappings.error());
        }
        held_.files.add(tgid, {*started, until});
        progress_.note_released_processes(held_.files.processes().size());
        // By the file, as it may be mapped by a name that no attacher wants.
        for (const ebpf::Mapping &mapping : *mappings) {
            for (const auto &[key, file] : offers_.files()) {
                if (key.second == mapping.file) {
                    held_.files.hold(mapping.file, tgid);
                    hold(key);
                }
            }
        }
        log::info("probes removed from a process",
                  {{"pid", std::to_string(tgid)},
                   {"files", std::to_string(held_.files.files_of(tgid).size())}});
    }
    return {};
}

// Whether the file is not to be attached to.
bool Discovery::is_held(const ebpf::Mapping &mapping) {
    if (held_.files.is_empty()) {
        return false;
    }
    if (held_.files.has(mapping.tgid)) {
        held_.files.hold(mapping.file, mapping.tgid);
    }
    return held_.files.holds(mapping.file);
}

void Discovery::hold(const Key &key) {
    if (offers_.at(key).attached) {
        key.first->detach(key.second, true);  // no probe is to be left: none is taken back
    }
    abandon(offers_.hold(key));
    found_.failed(*key.first, key.second, std::string(held_reason));
}

Result<Discovery::Release> Discovery::state_of_release(const std::vector<std::uint32_t> &tgids) {
    Release state;
    std::set<FileId> files;
    for (const std::uint32_t tgid : tgids) {
        const auto held = held_.files.files_of(tgid);
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
    if (!held_.files.remove(tgid)) {
        return false;
    }
    progress_.note_released_processes(held_.files.processes().size());
    log::info("a process can be traced again",
              {{"pid", std::to_string(tgid)}, {"reason", std::string(reason)}});
    return true;
}

void Discovery::end_old_releases() {
    if (held_.files.is_empty() || Clock::now() < held_.look_at_processes_at) {
        return;
    }
    held_.look_at_processes_at = Clock::now() + between_looks;
    bool has_ended = false;
    for (const auto &[tgid, process] : std::map(held_.files.processes())) {
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
