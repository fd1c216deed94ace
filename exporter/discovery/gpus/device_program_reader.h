// Reads the device programs of processes from the kernel.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <span>

#include "exporter/base/result.h"
#include "exporter/discovery/gpus/device_programs.h"

namespace gpusnoop::discovery {

// From what bpf/device_programs.h describes. Empty optional: it is not that.
[[nodiscard]] std::optional<DevicePrograms> device_programs_in(
    std::span<const std::uint64_t> words);

// For any thread. No process can make it wait.
class DeviceProgramReader {
public:
    static Result<std::unique_ptr<DeviceProgramReader>> open();
    ~DeviceProgramReader();
    DeviceProgramReader(const DeviceProgramReader &) = delete;
    DeviceProgramReader &operator=(const DeviceProgramReader &) = delete;

    [[nodiscard]] Result<DevicePrograms> of(std::uint32_t tgid);

private:
    struct Program;
    explicit DeviceProgramReader(std::unique_ptr<Program> program);

    std::mutex mutex_;
    std::unique_ptr<Program> program_;
};

}  // namespace gpusnoop::discovery
