#include "bench/scrape/load.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstring>
#include <iterator>
#include <span>
#include <utility>

#include "exporter/metrics/page.h"
#include "exporter/metrics/process.h"
#include "exporter/metrics/self.h"
#include "exporter/probes/functions/count/aggregator.h"
#include "tests/unit/metrics/metric_model.h"
#include "tests/unit/probes/cuda/fixture.h"

namespace gpusnoop::bench {

namespace {

using std::chrono::nanoseconds;

constexpr std::uint32_t no_limit = 1'000'000;
constexpr nanoseconds now = std::chrono::seconds(5'000);  // when pages are made

std::uint32_t pid_of(std::size_t program) {
    return static_cast<std::uint32_t>(10'000 + program);
}

process_identity identity_of(std::size_t program) {
    process_identity identity{};
    const auto write = [](auto &field, const std::string &text) {
        std::memcpy(field, text.data(), std::min(text.size(), sizeof field - 1));
    };
    write(identity.comm, fmt::format("train-{:05}", program));
    return identity;
}

// The id of a container, in its real length.
process_details details_of(std::size_t program) {
    process_details details{};
    const std::string scope = fmt::format("cri-containerd-{:064x}.scope", program * 2'654'435'761U);
    std::memcpy(details.cgroup.names, scope.c_str(), scope.size() + 1);
    details.cgroup.bytes = static_cast<std::uint16_t>(scope.size() + 1);
    details.cgroup.levels = details.cgroup.is_whole = 1;
    return details;
}

template <typename Record>
std::span<const std::byte> bytes_of(const Record &record) {
    return std::as_bytes(std::span(&record, 1));
}

probes::Health healthy(std::string probe) {
    return {
        .name = std::move(probe),
        .state = probes::ProbeState::up,
        .detail = "",
        .libraries = {},
        .attach_failures = {},
        .lost_details = {},
    };
}

}  // namespace

class Load::Cuda final : public probes::Probe {
public:
    explicit Cuda(std::size_t programs)
        : bench_({.budget = [](std::string_view) { return no_limit; }}) {
        for (std::size_t program = 0; program < programs; program++) {
            add(program);
        }
        name_kernels();
    }

    Result<> start() override { return {}; }
    void drain() override {}
    std::vector<series::FamilySnapshot> report() override { return bench_.aggregator->report(now); }
    [[nodiscard]] std::map<std::string, std::uint64_t> folded() const override {
        return bench_.aggregator->folded();
    }
    [[nodiscard]] probes::Health health() const override { return healthy("cuda"); }

private:
    void add(std::size_t program) {
        using namespace probes;
        const std::uint32_t pid = pid_of(program);
        auto process = probes::process("", pid);
        process.identity = identity_of(program);
        process.details = details_of(program);
        bench_.allocations(process);
        for (std::uint16_t kind = 0; kind < MEMORY_KIND_COUNT; kind++) {
            for (std::uint64_t i = 1; i <= 8; i++) {
                auto made =
                    of(pid, bench_since, allocation((kind * 16 + i) << 20U, i << 18U, 2'000, kind));
                made.caller = 0x400000 + i * 64;
                bench_.allocations(made);
                if (i % 2 == 0) {
                    bench_.allocations(release(made, 3'000));
                }
            }
        }
        for (const std::uint32_t kind : {COPY_H2H, COPY_H2D, COPY_D2H, COPY_D2D}) {
            for (std::uint64_t i = 1; i <= 8; i++) {
                const std::uint64_t bytes = std::uint64_t{1} << (8 + 2 * i);
                bench_.calls(of(pid, bench_since, copy(1, 2, bytes, kind, 2'000 + i)));
                bench_.calls(of(pid, bench_since, async_copy(0, bytes, 2'000 + i, kind)));
            }
        }
        for (std::uint64_t kernel = 1; kernel <= 8; kernel++) {
            for (std::uint32_t grid = 1; grid <= 3; grid++) {
                bench_.calls(of(pid, bench_since, launch(kernel * 4'096, 32 * grid)));
            }
        }
        bench_.apply_all();
    }

    void name_kernels() {
        for (const auto &request : std::exchange(bench_.asked, {})) {
            bench_.aggregator->on_kernel_name(
                {request.ticket,
                 fmt::format("at::native::vectorized_elementwise_kernel<4, Functor{}>",
                             named_++ % 8)});
        }
        for (std::size_t i = 0; i < bench_.asked_sites.size(); i++) {
            bench_.name_site(i, fmt::format("torch::allocate_{}", i % 8));
        }
        bench_.apply_all();
    }

    probes::Fixture bench_;
    std::size_t named_ = 0;
};

class Load::Func final : public probes::Probe {
public:
    Func(std::size_t programs, std::size_t functions)
        : aggregator_({.budget = [](std::string_view) { return no_limit; },
                       .retention = std::chrono::minutes(10)},
                      table_, [](probes::ProcessIdentity &) { return true; }) {
        for (std::size_t program = 0; program < programs && functions > 0; program++) {
            func_process_record process{};
            process.head = head(program, FUNC_RECORD_PROCESS, 1'000);
            process.identity = identity_of(program);
            process.details = details_of(program);
            aggregator_.on_record(bytes_of(process));
        }
        for (std::size_t i = 0; i < functions; i++) {
            call(i % programs, function(i / programs));
        }
        aggregator_.tidy(now);
    }

    Result<> start() override { return {}; }
    void drain() override {}
    std::vector<series::FamilySnapshot> report() override { return aggregator_.report(now); }
    [[nodiscard]] std::map<std::string, std::uint64_t> folded() const override {
        return aggregator_.folded();
    }
    [[nodiscard]] probes::Health health() const override { return healthy("functions"); }

private:
    static func_record head(std::size_t program, std::uint32_t type, std::uint64_t at) {
        return {at, 1'000, pid_of(program), type};
    }

    // The number of the function that is the programs' `index`th.
    std::uint32_t function(std::size_t index) {
        while (numbers_.size() <= index) {
            probes::FunctionOptions options;
            options.slow_threshold = std::chrono::milliseconds(50);
            options.errors = probes::ErrorKind::cublas_status;
            numbers_.push_back(
                table_.add({.library = "libcublas.so.12",
                            .group = "cublas",
                            .name = fmt::format("cublasGemmStridedEx_{}", numbers_.size()),
                            .options = std::move(options)}));
        }
        return numbers_[index];
    }

    void call(std::size_t program, std::uint32_t number) {
        for (std::uint64_t i = 0; i < 10; i++) {
            func_call_record record{};
            record.head = head(program, FUNC_RECORD_RETURN, 2'000 + i);
            record.duration_ns = std::uint64_t{1'000} << (2 * i);
            record.result = i == 0 ? 1 : 0;
            record.function = number;
            record.tid = pid_of(program);
            aggregator_.on_record(bytes_of(record));
        }
    }

    probes::FunctionIds table_;
    probes::FunctionsAggregator aggregator_;
    std::vector<std::uint32_t> numbers_;
};

Load::Load(std::size_t programs, std::size_t functions)
    : cuda_(std::make_unique<Cuda>(programs)),
      functions_(std::make_unique<Func>(programs, functions)) {}

Load::Load(std::size_t series)
    : Load(std::max<std::size_t>(1, series / 1'000),
           functions_for(series, std::max<std::size_t>(1, series / 1'000))) {}

Load::~Load() = default;

std::vector<probes::Probe *> Load::probes() const {
    return {cuda_.get(), functions_.get()};
}

// All functions have the same number of series, and so do all programs: it is counted on small
// pages.
std::size_t Load::functions_for(std::size_t series, std::size_t programs) {
    const auto count = [](std::size_t of_programs, std::size_t functions) {
        const Load load(of_programs, functions);
        probes::Snapshot snapshot;
        for (probes::Probe *probe : load.probes()) {
            std::ranges::move(probe->report(), std::back_inserter(snapshot.families));
        }
        const auto text = metrics::to_text(families_of(snapshot, load.probes()));
        return static_cast<double>(samples_in(text));
    };
    const double one = count(1, 0);
    const double of_program = count(2, 0) - one;
    const double of_function = (count(1, 11) - count(1, 1)) / 10;
    const double there = one + of_program * static_cast<double>(programs - 1);
    const double missing = (static_cast<double>(series) - there) / of_function;
    return missing > 0 ? static_cast<std::size_t>(std::lround(missing)) : 0;
}

std::vector<prometheus::MetricFamily> own_families(const probes::Snapshot &snapshot,
                                                   const std::vector<probes::Probe *> &probes) {
    std::vector<probes::Health> health;
    for (const probes::Probe *probe : probes) {
        health.push_back(probe->health());
    }
    auto families = metrics::probe_families(health);
    std::ranges::move(metrics::series_families(snapshot.families, snapshot.folded),
                      std::back_inserter(families));
    families.push_back(metrics::build_info("none"));
    std::ranges::move(metrics::process_families(metrics::read_own_process()),
                      std::back_inserter(families));
    return families;
}

std::vector<prometheus::MetricFamily> families_of(const probes::Snapshot &snapshot,
                                                  const std::vector<probes::Probe *> &probes) {
    auto families = metrics::to_metric_families(snapshot.families);
    std::ranges::move(own_families(snapshot, probes), std::back_inserter(families));
    return families;
}

std::size_t samples_in(std::string_view text) {
    std::size_t samples = 0;
    while (!text.empty()) {
        const std::size_t end = std::min(text.find('\n'), text.size() - 1);
        samples += text.front() != '#' ? 1 : 0;
        text.remove_prefix(end + 1);
    }
    return samples;
}

}  // namespace gpusnoop::bench
