// Files that no process maps: those that are attached to before, and those that are let go.
#include <algorithm>
#include <functional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "exporter/discovery/discovery.h"
#include "exporter/discovery/host_mounts.h"
#include "exporter/ebpf/attach/mapper_locks.h"

namespace gpusnoop::discovery {

namespace {

// Of the host's files that nobody uses, the ones used last stay attached to: each has descriptors
// and memory of the kernel.
constexpr std::size_t max_kept = 64;

}  // namespace

// The host's driver library, and what the configuration names.
void Discovery::look_at_named() {
    std::vector<std::string> globs = settings_.preattach;
    for (const Attacher *attacher : attachers_) {
        const std::vector<std::string> paths = attacher->paths();
        globs.insert(globs.end(), paths.begin(), paths.end());
    }
    consider_all(named_->find(globs));
}

// A file of the host that nobody uses may be used again soon, by the next job.
std::set<Discovery::Key> Discovery::kept() const {
    const auto now = Clock::now();
    std::vector<std::pair<Clock::time_point, Key>> unused;
    for (const auto &[key, known] : known_) {
        if (known.idle_rescans < rescans_before_letting_go || !known.is_attached() ||
            !known.is_lasting || now - known.used_at >= settings_.keep || is_deleted(known.file)) {
            continue;
        }
        unused.emplace_back(known.used_at, key);
    }
    std::ranges::sort(unused, std::ranges::greater{}, &decltype(unused)::value_type::first);
    unused.resize(std::min(unused.size(), max_kept));
    std::set<Key> kept;
    for (const auto &[used_at, key] : unused) {
        kept.insert(key);
    }
    return kept;
}

// Asked as long as the process runs: its mounts can be its own.
void Discovery::note_mounts() {
    for (const Key &key : std::exchange(newly_attached_, {})) {
        const auto known = known_.find(key);
        if (known != known_.end() && known->second.is_attached() && known->second.last) {
            const auto spending = spend_on(known->second.last->tgid);
            known->second.is_lasting =
                is_on_lasting_mount(known->second.file, known->second.last->tid);
        }
    }
}

// After two rescans without a user: a program that is restarted meanwhile finds the probes in
// place.
void Discovery::forget_unused() {
    const std::set<Key> kept = this->kept();
    std::erase_if(known_, [&](auto &entry) {
        auto &[key, known] = entry;
        if (known.idle_rescans < rescans_before_letting_go || kept.contains(key)) {
            return false;
        }
        if (known.is_attached() && ebpf::process_that_locks(key.second, 1)) {
            return false;  // that process cannot be listed, and maps it
        }
        found_.forget(*key.first, key.second);
        if (known.opening) {
            openings_.opener->abandon(*known.opening);
        }
        openings_.keys.erase(key);
        unnamed_.files.forget_wanted(*key.first, key.second);
        if (known.settled || known.is_attached()) {
            key.first->detach(key.second, false);
        }
        return true;
    });
    count_slow_files();
}

}  // namespace gpusnoop::discovery
