// A probe of one BPF object: loading, attaching, draining and health, shared by all such probes.
#pragma once

#include <bpf/libbpf.h>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "bpf/lib/processes/process.h"
#include "exporter/base/result.h"
#include "exporter/ebpf/libbpf.h"
#include "exporter/ebpf/maps/ring.h"
#include "exporter/ebpf/maps/wakeups.h"
#include "exporter/ebpf/object.h"
#include "exporter/probes/frame/probe.h"
#include "exporter/probes/frame/processes/process_table.h"
#include "exporter/series/family_set.h"

namespace gpusnoop::probes {

// The functions or tracepoints that a kernel-side probe is attached to, or why it is attached to
// nothing.
struct Attachment {
    std::size_t functions = 0;
    ProbeState state = ProbeState::failed;
    std::string detail;  // how it is attached, or why it is not up
};

// The attaching thread changes it; any thread may read it.
class AttachState {
public:
    explicit AttachState(std::string probe) : probe_(std::move(probe)) {}

    // Attached to functions, at least one; `detail` says how.
    void up(std::size_t functions, std::string detail);
    // Attached to nothing; the error's code decides between `unsupported` and `failed`.
    void down(const Error &error);
    // Counts and logs a failure to attach. Other attachments stay.
    void failed(const Error &error);

    [[nodiscard]] const std::string &probe() const { return probe_; }
    [[nodiscard]] Attachment get() const;
    // All fields except the counts of the BPF programs.
    [[nodiscard]] Health health() const;

private:
    const std::string probe_;
    mutable std::mutex mutex_;
    Attachment attachment_{.detail = "not started"};
    std::uint64_t failures_ = 0;
};

// A record that `on_record` refuses by returning false counts as undecodable.
struct ProbeRing {
    bpf_map *map;
    std::uint32_t bytes;  // a power of two
    std::function<bool(std::span<const std::byte>)> on_record;
};

// A ring of calls. A `First` is the record of a call and the details of its process; other records
// are a call alone, and `details` is null. False, as above: not one that the probe can count.
template <typename First>
ProbeRing ring_of_calls(
    bpf_map *map, std::uint32_t bytes,
    std::function<bool(const decltype(First::call) &, const process_details *)> count) {
    return {map, bytes, [count = std::move(count)](std::span<const std::byte> raw) {
                if (const auto first = ebpf::decode<First>(raw)) {
                    return count(first->call, &first->details);
                }
                const auto call = ebpf::decode<decltype(First::call)>(raw);
                return call && count(*call, nullptr);
            }};
}

// The part that does not depend on the skeleton; see BpfProbe.
class BpfProbeBase : public Probe {
public:
    Result<> start() final;
    void drain() final;
    [[nodiscard]] ebpf::Wakeups wakeups() const override;
    std::vector<series::FamilySnapshot> report() final;
    [[nodiscard]] std::map<std::string, std::uint64_t> folded() const final;
    [[nodiscard]] Health health() const final;

protected:
    BpfProbeBase(std::string name, std::chrono::nanoseconds rescan_interval)
        : state_(std::move(name)), rescan_interval_(rescan_interval) {}

    // Each second, when all records from before `now` are drained.
    virtual void tick(std::chrono::nanoseconds now) { (void)processes().tidy(now); }
    // Each rescan interval.
    virtual void rescan() {}
    // Before each report: counts data that no ring brings.
    virtual void refresh() {}
    // Families of this page alone, such as gauges of running processes.
    [[nodiscard]] virtual std::optional<series::FamilySet> gauges() const { return std::nullopt; }
    // At each drain: reads events that no ring brings.
    virtual void drain_others() {}
    // Adds those events to the account, which the BPF programs keep of theirs. For any thread.
    virtual void add_others(probe_account & /*account*/) const {}

    // Attaches the programs in their order, until the probe is destroyed.
    Result<> attach_each(std::span<const bpf_program *const> programs);
    void drain_rings();
    // Destroys the users of the object before the object is closed.
    void release();

    [[nodiscard]] AttachState &state() { return state_; }
    [[nodiscard]] std::chrono::nanoseconds rescan_interval() const { return rescan_interval_; }

private:
    // The steps of start(). Each needs the one before.
    virtual Result<std::vector<ProbeRing>> open_object() = 0;
    virtual Result<> load_object() = 0;
    virtual Result<> attach_programs() = 0;
    virtual void close_object() = 0;

    [[nodiscard]] virtual const series::FamilySet &families() const = 0;
    virtual ProcessTableBase &processes() = 0;
    [[nodiscard]] virtual const bpf_object *object() const = 0;
    [[nodiscard]] virtual ebpf::Runs runs() const = 0;

    Result<> open_and_attach();

    AttachState state_;
    std::chrono::nanoseconds rescan_interval_;
    bool is_loaded_ = false;  // set before any other thread sees the probe
    std::vector<std::unique_ptr<ebpf::Ring>> rings_;
    std::vector<ebpf::Link> links_;
    std::chrono::nanoseconds ticked_{};
    std::chrono::nanoseconds rescanned_{};
    std::atomic<std::uint64_t> undecodable_ = 0;
    series::PageFamilies page_families_;
};

// For the bpftool skeleton `S`, whose object has the map of bpf/lib/emit.bpf.h. The functions below
// are called in their order; if one fails, the probe is down and gives the reason.
//
// The aggregator counts: it is made of SeriesSettings and has families() and processes(), a
// ProcessTable. It does not depend on BPF, so a test does not need BPF.
template <typename S, typename Aggregator>
class BpfProbe : public BpfProbeBase {
public:
    BpfProbe(std::string name, const config::Config &config)
        : BpfProbe(std::move(name), config, series_settings(config)) {}
    BpfProbe(std::string name, const config::Config &config, const SeriesSettings &series)
        : BpfProbeBase(std::move(name), config.discovery.rescan_interval), aggregator_(series) {}
    ~BpfProbe() override { release(); }
    BpfProbe(const BpfProbe &) = delete;
    BpfProbe &operator=(const BpfProbe &) = delete;

protected:
    // Opened, not loaded: sets constants, sizes of maps, and the programs to load.
    virtual Result<> configure(S &skeleton) = 0;
    virtual std::vector<ProbeRing> rings(S & /*skeleton*/) { return {}; }
    // Loaded. Writes to state() what it has attached to.
    virtual Result<> attach(S &skeleton) = 0;

    // Programs whose skipped runs lose nothing.
    [[nodiscard]] virtual std::vector<const bpf_program *> spare_programs(const S &) const {
        return {};
    }
    [[nodiscard]] S &skeleton() { return *skeleton_; }
    [[nodiscard]] Aggregator &aggregator() { return aggregator_; }
    [[nodiscard]] const Aggregator &aggregator() const { return aggregator_; }

private:
    Result<std::vector<ProbeRing>> open_object() final {
        skeleton_.reset(S::open());
        if (!skeleton_) {
            return fail_errno("open the BPF programs");
        }
        if (const auto configured = configure(*skeleton_); !configured) {
            return tl::unexpected(configured.error());
        }
        return rings(*skeleton_);
    }
    Result<> load_object() final {
        const int error = S::load(skeleton_.get());
        return error == 0 ? Result<>() : fail_errno("load the BPF programs", -error);
    }
    Result<> attach_programs() final { return attach(*skeleton_); }
    void close_object() final { skeleton_.reset(); }
    [[nodiscard]] const series::FamilySet &families() const final { return aggregator_.families(); }
    ProcessTableBase &processes() final { return aggregator_.processes(); }
    [[nodiscard]] const bpf_object *object() const final { return skeleton_->obj; }
    [[nodiscard]] ebpf::Runs runs() const final {
        return ebpf::runs_of(skeleton_->obj, spare_programs(*skeleton_));
    }

    Aggregator aggregator_;
    ebpf::Skeleton<S> skeleton_;
};

}  // namespace gpusnoop::probes
