// The heap of one process: which functions of its allocator a profile attaches to.
#pragma once

#include <cstdint>
#include <vector>

#include "bpf/profile/profile.h"
#include "exporter/base/result.h"
#include "exporter/ebpf/attach/uprobe.h"
#include "exporter/probes/profile/probe.h"
#include "profile.skel.h"

namespace gpusnoop::probes {

// Opened, not loaded. Makes room and loads the programs, if the profile is of this type.
Result<> set_up_heap(profile_bpf &skeleton, const ProfileSettings &settings);

// Attaches to each file of the process that defines malloc: the C library, and jemalloc or tcmalloc
// where the process has one of these, in that process alone. Code ENOENT: it has no such file.
Result<std::vector<ebpf::UprobeSet>> attach_to_allocator(profile_bpf &skeleton, std::uint32_t tgid);

}  // namespace gpusnoop::probes
