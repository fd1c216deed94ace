// Kprobes on functions of the GPU's driver, whose modules come and go.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <span>
#include <stop_token>
#include <string>
#include <string_view>
#include <thread>
#include <utility>

#include "exporter/base/unsupported.h"
#include "exporter/ebpf/attach/kprobe.h"
#include "exporter/probes/frame/bpf/attach_state.h"

namespace gpusnoop::probes {

// Attaches to the functions that exist, and again whenever they change: a module that was loaded
// again has them at other addresses. Uses its own thread, as attaching takes a while.
class DriverFunctions {
public:
    // A function's attach cookie is its index in `functions`, which must stay valid. `absent` is
    // why the probe is unsupported while no function exists.
    DriverFunctions(std::span<const std::string_view> functions, std::string absent,
                    std::chrono::nanoseconds rescan_interval, AttachState &state)
        : functions_(functions),
          absent_(fail_unsupported(std::move(absent)).value()),
          rescan_interval_(rescan_interval),
          state_(state) {}

    // Looks for the functions immediately, and then each rescan interval. The programs must outlive
    // this.
    void start(const ebpf::KprobePrograms &programs);

private:
    Result<> attach();
    void look();
    void watch(const std::stop_token &stop);

    std::span<const std::string_view> functions_;
    Error absent_;
    std::chrono::nanoseconds rescan_interval_;
    AttachState &state_;
    ebpf::KprobePrograms programs_{};
    std::string modules_ = "not looked yet";
    std::map<std::string, std::uint64_t> found_;
    ebpf::KprobeSet probes_;
    std::mutex mutex_;
    std::condition_variable_any wake_;
    std::jthread watcher_;  // stops before the others go
};

}  // namespace gpusnoop::probes
