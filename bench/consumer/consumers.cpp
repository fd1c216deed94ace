#include "bench/consumer/consumers.h"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <numeric>
#include <string_view>
#include <utility>

#include "exporter/ebpf/features.h"
#include "exporter/metrics/page.h"
#include "exporter/probes/frame/registry.h"

namespace gpusnoop::bench {

namespace {

namespace fs = std::filesystem;

struct OwnMap {
    int fd;
    std::string name;
};

// The BPF maps that this process has open.
std::vector<OwnMap> own_maps() {
    std::vector<OwnMap> maps;
    for (const auto &entry : fs::directory_iterator("/proc/self/fd")) {
        std::error_code error;
        if (fs::read_symlink(entry.path(), error) != "anon_inode:bpf-map") {
            continue;
        }
        const std::string number = entry.path().filename().string();
        int fd = -1;
        std::from_chars(number.data(), number.data() + number.size(), fd);
        bpf_map_info info{};
        auto size = static_cast<std::uint32_t>(sizeof(info));
        if (bpf_map_get_info_by_fd(fd, &info, &size) == 0) {
            maps.push_back({fd, info.name});
        }
    }
    return maps;
}

// The new map of that name; -1: there is none.
int new_map(const std::vector<OwnMap> &before, std::string_view name) {
    for (const OwnMap &map : own_maps()) {
        if (map.name == name && std::ranges::find(before, map.fd, &OwnMap::fd) == before.end()) {
            return map.fd;
        }
    }
    return -1;
}

}  // namespace

Exporter::~Exporter() {
    pipeline_.reset();  // before the probes
}

Result<std::unique_ptr<Exporter>> Exporter::start() {
    auto exporter = std::make_unique<Exporter>();
    if (auto loaded = exporter->load(); !loaded) {
        return tl::unexpected(loaded.error());
    }
    return exporter;
}

Result<> Exporter::load() {
    probes_ =
        probes::make_probes(config_, ebpf::probe_features(),
                            {.traced = probes::make_traced_processes(config_),
                             .sinks = std::make_shared<const sinks::Sinks>(sinks::SinkConfigs())});
    std::vector<probes::Probe *> all;
    for (const auto &probe : probes_) {
        const auto before = own_maps();
        // Other probes may be down here, as in the exporter.
        const auto started = probe->start();
        if (probe->health().name == "cuda") {
            if (!started) {
                return started;
            }
            rings_ = {new_map(before, "cuda_mem_events"), new_map(before, "cuda_events"),
                      new_map(before, "cuda_account")};
        }
        all.push_back(probe.get());
    }
    if (rings_.allocations < 0 || rings_.calls < 0 || rings_.account < 0) {
        return fail("the maps of the probe cuda are not to be found");
    }
    pipeline_ = std::make_unique<probes::Pipeline>(std::move(all), probes::drain_interval(config_),
                                                   [this] { meter_.note_round(); });
    return {};
}

Result<std::optional<std::uint64_t>> Exporter::launches() {
    const auto snapshot = pipeline_->snapshot();
    if (!snapshot) {
        return tl::unexpected(snapshot.error());
    }
    for (const series::FamilySnapshot &family : snapshot->families) {
        if (family.description->name == "gpusnoop_cuda_kernel_launches_total") {
            return std::accumulate(family.values.begin(), family.values.end(), std::uint64_t{0});
        }
    }
    return 0;
}

Result<std::string> Exporter::scrape() {
    const auto snapshot = pipeline_->snapshot();
    if (!snapshot) {
        return tl::unexpected(snapshot.error());
    }
    return metrics::write_page(metrics::Format::text, snapshot->families, {});
}

Result<std::unique_ptr<Counter>> Counter::start(const Rings &rings) {
    auto counter = std::make_unique<Counter>();
    counter->rings_ = ring_buffer__new(rings.calls, count, counter.get(), nullptr);
    if (counter->rings_ == nullptr ||
        ring_buffer__add(counter->rings_, rings.allocations, count, counter.get()) != 0) {
        return fail_errno("map the rings");
    }
    counter->thread_ =
        std::jthread([self = counter.get()](const std::stop_token &stop) { self->run(stop); });
    return counter;
}

Counter::~Counter() {
    thread_ = {};
    ring_buffer__free(rings_);
}

int Counter::count(void *self, void * /*data*/, std::size_t /*size*/) {
    static_cast<Counter *>(self)->records_++;
    return 0;
}

void Counter::run(const std::stop_token &stop) {
    const config::Config config;
    while (!stop.stop_requested()) {
        std::this_thread::sleep_for(probes::drain_interval(config));
        ring_buffer__consume(rings_);
        meter_.note_round();
    }
}

}  // namespace gpusnoop::bench
