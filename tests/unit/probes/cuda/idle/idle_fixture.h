// The count of idle time with the memory that it is about, and a clock.
#pragma once

#include <catch2/catch_test_macros.hpp>
#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "exporter/probes/cuda/idle/idle_held.h"
#include "exporter/probes/cuda/memory/accounting.h"
#include "tests/unit/probes/cuda/part_fixture.h"

namespace gpusnoop::probes {

inline constexpr const char *idle_seconds = "gpu_idle_held_seconds_total";

struct IdleFixture : PartFixture {
    std::optional<OldestCalls> open = OldestCalls();
    std::map<ProcessKey, std::chrono::nanoseconds> unseen;
    std::uint64_t listings = 0;  // of calls under way
    MemoryAccounting memory{families, processes, callbacks, {}};
    CudaIdleHeld idle{families, processes, callbacks, {}};
    std::chrono::seconds now{0};

    IdleFixture()
        : PartFixture([this](Process &process) {
              memory.started(process);
              CudaIdleHeld::started(process);
          }) {
        callbacks.open_calls = [this](std::chrono::nanoseconds) {
            listings++;
            return open;
        };
        callbacks.unseen_of = [this](const ProcessKey &key) {
            return Unseen{.time = unseen[key], .launches = 0};
        };
    }

    void hold(Process &process, std::int32_t device = 0, std::uint16_t kind = MEMORY_device) {
        memory.apply(process, allocation(0x1000 + static_cast<std::uint64_t>(device), 100, now_ns(),
                                         kind, device));
    }
    void pass(std::chrono::seconds time) {
        for (const std::chrono::seconds until = now + time; now < until;) {
            now += std::chrono::seconds(1);
            idle.tidy(now);
        }
    }
    [[nodiscard]] std::uint64_t now_ns() const {
        return static_cast<std::uint64_t>(std::chrono::nanoseconds(now).count());
    }
    [[nodiscard]] cuda_record at_now(std::uint16_t type, std::int32_t device = 0) const {
        return head(type, "", now_ns(), device);
    }
    // In seconds.
    [[nodiscard]] std::uint64_t idled(const std::vector<std::string> &labels = {}) const {
        const std::uint64_t ns = sum(idle_seconds, labels);
        CHECK(ns % second_ns == 0);
        return ns / second_ns;
    }
};

}  // namespace gpusnoop::probes
