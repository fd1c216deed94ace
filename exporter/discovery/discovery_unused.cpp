// Files that no process maps: those that are attached to before, and those that are let go.
#include <string>
#include <vector>

#include "exporter/discovery/discovery.h"
#include "exporter/discovery/host_mounts.h"
#include "exporter/ebpf/attach/mapper_locks.h"

namespace gpusnoop::discovery {

// The host's driver library, and what the configuration names.
void Discovery::look_at_named() {
    std::vector<std::string> globs = settings_.preattach;
    for (const Attacher *attacher : attachers_) {
        const std::vector<std::string> paths = attacher->paths();
        globs.insert(globs.end(), paths.begin(), paths.end());
    }
    consider_all(kernel_.named->find(globs));
}

// Asked as long as the process runs: its mounts can be its own.
void Discovery::note_mounts() {
    for (const Key &key : offers_.take_new()) {
        const auto known = offers_.files().find(key);
        if (known == offers_.files().end() || !known->second.attached) {
            continue;
        }
        FileOffers::Attached &attached = *offers_.at(key).attached;
        const auto spending = spend_on(attached.by.tgid);
        attached.is_lasting = is_on_lasting_mount(attached.file, attached.by.tid);
    }
}

void Discovery::forget_unused() {
    for (const Key &key : offers_.unused(Clock::now(), settings_.keep)) {
        const File &file = offers_.at(key);
        if (file.attached && ebpf::process_that_locks(key.second, 1)) {
            continue;  // that process cannot be listed, and maps it
        }
        found_.forget(*key.first, key.second);
        unnamed_.files.forget_wanted(*key.first, key.second);
        if (file.settled_as) {
            key.first->detach(key.second, false);
        }
        abandon(offers_.forget(key));
    }
    note_slow_files();
}

}  // namespace gpusnoop::discovery
