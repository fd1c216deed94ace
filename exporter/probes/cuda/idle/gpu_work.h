// When a process last gave its GPUs work, and whether it has seen the end of its kernels.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <vector>

namespace gpusnoop::probes {

// Of launches and copies, only that they were submitted is seen. A copy ends soon; a kernel has
// ended once a later call that waits for the GPU has returned. (Which streams that waits for is not
// looked at.) Devices below 0 are unknown: any of the process's.
class GpuWork {
public:
    struct Last {
        std::chrono::nanoseconds at{};  // 0: there was none
        bool has_ended = true;
    };

    void launched(std::int32_t device, std::chrono::nanoseconds at) {
        OnDevice &on = of(device);
        on.at = std::max(on.at, at);
        on.launched = std::max(on.launched, at);
    }
    void copied(std::int32_t device, std::chrono::nanoseconds at) {
        OnDevice &on = of(device);
        on.at = std::max(on.at, at);
    }
    // A call that waits has returned: when it began.
    void waited(std::int32_t device, std::chrono::nanoseconds began) {
        OnDevice &on = of(device);
        on.waited = std::max(on.waited, began);
    }

    // It launched between two calls of settle(), which say when that was: between `since` and `at`.
    void launched_lately(std::int32_t device) { of(device).has_new = true; }
    void settle(std::chrono::nanoseconds since, std::chrono::nanoseconds at) {
        for (OnDevice &on : devices_) {
            if (on.has_new) {
                on.has_new = false;
                on.at = std::max(on.at, at);
                // If there was a wait meanwhile, it was after them: who launches so often that the
                // launches are only counted launches more behind a wait for something else.
                on.launched = std::max(on.launched, since);
            }
        }
    }

    // On the devices that are there.
    [[nodiscard]] Last last_on(auto &&is_there) const {
        Last last;
        for (const OnDevice &on : devices_) {
            if (on.at.count() != 0 && is_there(on.device)) {
                last.at = std::max(last.at, on.at);
                last.has_ended = last.has_ended && on.launched <= waited_for(on);
            }
        }
        return last;
    }

private:
    struct OnDevice {
        std::int32_t device = 0;
        std::chrono::nanoseconds at{};        // of its last work
        std::chrono::nanoseconds launched{};  // a wait that began then waited for all kernels
        std::chrono::nanoseconds waited{};    // when the last wait began
        bool has_new = false;
    };

    OnDevice &of(std::int32_t device) {
        const auto found = std::ranges::find(devices_, device, &OnDevice::device);
        return found != devices_.end() ? *found : devices_.emplace_back(OnDevice{.device = device});
    }
    // If it is not known of either on which device it was, it may have been the same.
    [[nodiscard]] std::chrono::nanoseconds waited_for(const OnDevice &on) const {
        std::chrono::nanoseconds waited = on.waited;
        for (const OnDevice &other : devices_) {
            if (on.device < 0 || other.device < 0) {
                waited = std::max(waited, other.waited);
            }
        }
        return waited;
    }

    std::vector<OnDevice> devices_;  // few
};

}  // namespace gpusnoop::probes
