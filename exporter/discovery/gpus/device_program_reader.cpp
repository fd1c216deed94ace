#include "exporter/discovery/gpus/device_program_reader.h"

#include <bpf/libbpf.h>

#include <cstring>
#include <utility>
#include <vector>

#include "bpf/device_programs.h"
#include "device_programs.skel.h"
#include "exporter/ebpf/mappings/iterator.h"
#include "exporter/ebpf/object.h"

namespace gpusnoop::discovery {

static_assert(sizeof(bpf_insn) == DEVICE_PROGRAM_WORD_BYTES);

struct DeviceProgramReader::Program {
    ebpf::Skeleton<device_programs_bpf> skeleton;
};

std::optional<DevicePrograms> device_programs_in(std::span<const std::uint64_t> words) {
    if (words.empty() || words.front() != DEVICE_PROGRAMS_BEGIN) {
        return std::nullopt;
    }
    DevicePrograms found;
    for (words = words.subspan(1); !words.empty();) {
        const std::uint64_t length = words.front();
        words = words.subspan(1);
        if (length == DEVICE_PROGRAM_UNREADABLE) {
            found.has_unreadable = true;
            continue;
        }
        if (length > words.size()) {
            return std::nullopt;
        }
        std::vector<bpf_insn> program(length);
        std::memcpy(program.data(), words.data(), length * sizeof(bpf_insn));
        found.programs.push_back(std::move(program));
        words = words.subspan(length);
    }
    return found;
}

DeviceProgramReader::DeviceProgramReader(std::unique_ptr<Program> program)
    : program_(std::move(program)) {}
DeviceProgramReader::~DeviceProgramReader() = default;

Result<std::unique_ptr<DeviceProgramReader>> DeviceProgramReader::open() {
    auto program = std::make_unique<Program>();
    program->skeleton.reset(device_programs_bpf::open_and_load());
    if (!program->skeleton) {
        return fail_errno("load the BPF program that reads device programs");
    }
    return std::unique_ptr<DeviceProgramReader>(new DeviceProgramReader(std::move(program)));
}

Result<DevicePrograms> DeviceProgramReader::of(std::uint32_t tgid) {
    const std::lock_guard lock(mutex_);
    program_->skeleton->bss->only_tgid = static_cast<int>(tgid);
    const auto link =
        ebpf::link_iterator_of(bpf_program__fd(program_->skeleton->progs.device_programs), tgid);
    if (!link) {
        return fail_in("read the device programs of a process", link.error());
    }
    std::vector<std::uint64_t> words;
    const auto read = ebpf::read_iterator(
        link->get(), DEVICE_PROGRAM_WORD_BYTES, [&](std::span<const std::byte> bytes) {
            std::memcpy(&words.emplace_back(), bytes.data(), bytes.size());
        });
    if (!read) {
        return fail_in("read the device programs of a process", read.error());
    }
    auto programs = device_programs_in(words);
    if (!programs) {
        return fail("the kernel shows no device programs of a process");
    }
    return std::move(*programs);
}

}  // namespace gpusnoop::discovery
