// What the device programs (BPF) of a process's cgroups allow it to open. cgroup v2 has no other
// list of devices.
#pragma once

#include <linux/bpf.h>

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace gpusnoop::discovery {

struct CharacterDevice {
    std::uint32_t major;
    std::uint32_t minor;
};

// Whether one program allows to open the device for reading and writing. Interprets programs that
// compare type, access, major and minor, as those of runc, crun, systemd and Slurm do. Empty
// optional: it does anything else, such as reading a map.
[[nodiscard]] std::optional<bool> allows(std::span<const bpf_insn> program, CharacterDevice device);

// Of the process's cgroup and of all cgroups above it.
struct DevicePrograms {
    std::vector<std::vector<bpf_insn>> programs;
    // There are others, which are too long or too many to be read.
    bool has_unreadable = false;

    [[nodiscard]] bool empty() const { return programs.empty() && !has_unreadable; }

    // All of them must allow it. Empty optional: it is not known.
    [[nodiscard]] std::optional<bool> allow(CharacterDevice device) const;
};

}  // namespace gpusnoop::discovery
