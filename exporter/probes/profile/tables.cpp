#include "exporter/probes/profile/tables.h"

#include <bpf/bpf.h>

#include <algorithm>
#include <cstring>

#include "exporter/base/log.h"
#include "exporter/base/text/text.h"
#include "exporter/ebpf/maps/hash_map.h"

namespace gpusnoop::probes {

Result<ProfileReading> ProfileTables::read() const {
    ProfileReading reading;
    const auto read = ebpf::for_each<profile_key, profile_count>(
        bpf_map__fd(skeleton_.maps.prof_counts),
        [&](const profile_key &key, const profile_count &count) {
            reading.emplace_back(key, count);
        });
    return read ? Result<ProfileReading>(std::move(reading)) : tl::unexpected(read.error());
}

Result<> ProfileTables::read_open(ProfileReading &reading, std::uint64_t now_ns) const {
    return ebpf::for_each<std::uint32_t, profile_off>(
        bpf_map__fd(skeleton_.maps.prof_off), [&](std::uint32_t /*tid*/, const profile_off &off) {
            if (now_ns > off.since_ns) {
                reading.emplace_back(off.key, profile_count{1, now_ns - off.since_ns});
            }
        });
}

std::vector<std::uint64_t> ProfileTables::addresses(std::uint64_t stack) const {
    std::vector<std::uint64_t> frames(PROFILE_STACK_FRAMES);
    if (stack == 0 ||
        bpf_map_lookup_elem(bpf_map__fd(skeleton_.maps.prof_stacks), &stack, frames.data()) != 0) {
        return {};
    }
    frames.erase(std::ranges::find(frames, 0U), frames.end());
    return frames;
}

std::string ProfileTables::kernel_function(std::uint64_t address) const {
    profile_symbol &symbol = skeleton_.bss->symbol;
    symbol.address = address;
    bpf_test_run_opts options{};
    options.sz = sizeof(options);
    const int error = bpf_prog_test_run_opts(bpf_program__fd(skeleton_.progs.prof_name), &options);
    if (error != 0) {
        log::warn("cannot name a function of the kernel", {{"reason", std::strerror(-error)}});
        return "";
    }
    // "vfs_read", "nvidia_ioctl [nvidia]", or the address.
    const std::string text = to_valid_utf8(
        {symbol.name, ::strnlen(symbol.name, PROFILE_SYMBOL_BYTES)}, PROFILE_SYMBOL_BYTES);
    return text.starts_with("0x") ? "" : text.substr(0, text.find(' '));
}

std::uint64_t ProfileTables::stacks_lost() const {
    return __atomic_load_n(&skeleton_.bss->stacks_lost, __ATOMIC_RELAXED);
}

std::uint32_t ProfileTables::begin_generation() {
    const std::uint32_t ended = skeleton_.bss->generation;
    skeleton_.bss->generation = ended + 1;
    return ended;
}

void ProfileTables::take_out(const ProfileReading &reading) {
    const int counts = bpf_map__fd(skeleton_.maps.prof_counts);
    for (const auto &[key, unused] : reading) {
        bpf_map_delete_elem(counts, &key);
    }
    const int stacks = bpf_map__fd(skeleton_.maps.prof_stacks);
    const std::uint32_t most = bpf_map__max_entries(skeleton_.maps.prof_stacks);
    const std::uint32_t generation = skeleton_.bss->generation;
    std::vector<std::uint64_t> old;
    std::uint64_t stack = 0;
    for (std::uint32_t i = 0;
         i < most && bpf_map_get_next_key(stacks, i == 0 ? nullptr : &stack, &stack) == 0; i++) {
        if (((generation - stack) & 0xffU) > 1) {
            old.push_back(stack);
        }
    }
    for (const std::uint64_t one : old) {
        bpf_map_delete_elem(stacks, &one);
    }
}

}  // namespace gpusnoop::probes
