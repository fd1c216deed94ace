// The consumers of the rings: the exporter's own threads, and for comparison a libbpf callback that
// only counts.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "bench/consumer/flood.h"
#include "bench/consumer/meter.h"
#include "exporter/base/result.h"
#include "exporter/config/config.h"
#include "exporter/probes/frame/pipeline.h"
#include "exporter/probes/frame/probe.h"

struct ring_buffer;

namespace gpusnoop::bench {

class Consumer {
public:
    virtual ~Consumer() = default;
    // The use of resources by its one thread.
    [[nodiscard]] virtual const Meter &meter() const = 0;
    // The launches that it has counted, if it counts them. Includes all that were written a while
    // ago.
    virtual Result<std::optional<std::uint64_t>> launches() = 0;
};

// All probes, with the default configuration, and the thread that aggregates their records.
class Exporter final : public Consumer {
public:
    // Its threads run on the CPU of the calling thread.
    static Result<std::unique_ptr<Exporter>> start();
    ~Exporter() override;

    [[nodiscard]] const Meter &meter() const override { return meter_; }
    Result<std::optional<std::uint64_t>> launches() override;
    // Of the probe `cuda`.
    [[nodiscard]] const Rings &rings() const { return rings_; }
    // The page's text, which this thread makes as for a scrape.
    Result<std::string> scrape();

private:
    Result<> load();

    config::Config config_;
    Meter meter_;
    Rings rings_;
    std::vector<std::unique_ptr<probes::Probe>> probes_;
    std::unique_ptr<probes::Pipeline> pipeline_;
};

// As often as the exporter does.
class Counter final : public Consumer {
public:
    // Its thread runs on the CPU of the calling thread.
    static Result<std::unique_ptr<Counter>> start(const Rings &rings);
    ~Counter() override;

    [[nodiscard]] const Meter &meter() const override { return meter_; }
    Result<std::optional<std::uint64_t>> launches() override { return std::nullopt; }

private:
    static int count(void *self, void *data, std::size_t size);
    void run(const std::stop_token &stop);

    Meter meter_;
    std::uint64_t records_ = 0;
    ring_buffer *rings_ = nullptr;
    std::jthread thread_;
};

}  // namespace gpusnoop::bench
