#include "exporter/probes/frame/libraries/library_probe.h"

#include <unordered_map>

#include "bpf/lib/processes/process.h"
#include "exporter/base/log.h"
#include "exporter/symbols/exits/entry_probe.h"

namespace gpusnoop::probes {

void use_cheapest_entries(const symbols::ElfFile &elf, int fd,
                          std::span<const symbols::FoundFunction> functions,
                          std::vector<ebpf::AttachPoint> &points) {
    const auto places = symbols::find_entry_probes(elf, fd, functions);
    std::unordered_map<std::uint64_t, symbols::EntryProbe> by_entry;
    for (std::size_t i = 0; i < places.size(); i++) {
        by_entry.emplace(functions[i].file_offset, places[i]);
    }
    for (ebpf::AttachPoint &point : points) {
        if (const auto place = by_entry.find(point.file_offset); place != by_entry.end()) {
            point.file_offset = place->second.file_offset;
            point.is_expensive = place->second.is_expensive;
        }
    }
}

namespace {

const char *name_of(std::uint32_t system_calls) {
    if ((system_calls & SYSTEM_CALLS_DISPATCHED) != 0) {
        return "syscall user dispatch";
    }
    return (system_calls & SYSTEM_CALLS_EMULATED) != 0 ? "a tracer (PTRACE_SYSEMU)"
                                                       : "a tracer (PTRACE_SYSCALL)";
}

}  // namespace

void SandboxWarnings::look(const ProcessIdentity &process) {
    if (process.system_calls == 0 || said_.size() >= max_names ||
        !said_.insert(process.comm).second) {
        return;
    }
    log::warn(
        "system calls of a program are handled by something other than the kernel: if that does "
        "not know the system call uretprobe (x86_64, Linux 6.11 and later), return probes kill "
        "the program; \"endings: exits\" avoids them (docs/reliability.md)",
        {{"probe", probe_},
         {"pid", process.key.tgid},
         {"comm", process.comm},
         {"handled_by", name_of(process.system_calls)}});
}

}  // namespace gpusnoop::probes
