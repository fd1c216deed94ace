#include "exporter/probes/frame/bpf/bpf_probe.h"

#include "exporter/base/log.h"
#include "exporter/ebpf/maps/counters.h"
#include "exporter/system/machine.h"

namespace gpusnoop::probes {

void AttachState::up(std::size_t functions, std::string detail) {
    const std::lock_guard lock(mutex_);
    attachment_ = {functions, ProbeState::up, std::move(detail)};
}

void AttachState::down(const Error &error) {
    const std::lock_guard lock(mutex_);
    attachment_ = {0, state_after(error), error.message};
}

void AttachState::failed(const Error &error) {
    {
        const std::lock_guard lock(mutex_);
        failures_++;
    }
    log::warn("cannot attach", {{"probe", probe_}, {"reason", error.message}});
}

Attachment AttachState::get() const {
    const std::lock_guard lock(mutex_);
    return attachment_;
}

Health AttachState::health() const {
    const std::lock_guard lock(mutex_);
    Health health;
    health.name = probe_;
    health.state = attachment_.state;
    health.detail = attachment_.detail;
    health.attached_functions = attachment_.functions;
    if (failures_ > 0) {
        health.attach_failures["attach"] = failures_;
    }
    return health;
}

using std::chrono::nanoseconds;

Result<> BpfProbeBase::start() {
    const auto started = open_and_attach();
    if (!started) {
        release();
        close_object();
        state_.down(started.error());
    }
    is_loaded_ = started.has_value();
    return started;
}

Result<> BpfProbeBase::open_and_attach() {
    auto rings = open_object();
    if (!rings) {
        return tl::unexpected(rings.error());
    }
    for (const ProbeRing &ring : *rings) {
        bpf_map__set_max_entries(ring.map, ring.bytes);
    }
    if (auto loaded = load_object(); !loaded) {
        return loaded;
    }
    for (ProbeRing &ring : *rings) {
        auto opened = ebpf::Ring::open(bpf_map__fd(ring.map),
                                       [this, on_record = std::move(ring.on_record)](auto bytes) {
                                           undecodable_ += on_record(bytes) ? 0 : 1;
                                       });
        if (!opened) {
            return tl::unexpected(opened.error());
        }
        rings_.push_back(std::move(*opened));
    }
    rescanned_ = now_on(CLOCK_MONOTONIC);
    return attach_programs();
}

Result<> BpfProbeBase::attach_each(std::span<const bpf_program *const> programs) {
    for (const bpf_program *program : programs) {
        ebpf::Link link(bpf_program__attach(program));
        if (!link) {
            return fail_errno(std::string("attach the BPF program ") + bpf_program__name(program));
        }
        links_.push_back(std::move(link));
    }
    return {};
}

void BpfProbeBase::release() {
    links_.clear();
    rings_.clear();
}

void BpfProbeBase::drain_rings() {
    for (const auto &ring : rings_) {
        ring->drain_to(ring->produced());
    }
}

void BpfProbeBase::drain() {
    if (!is_loaded_) {
        return;
    }
    const nanoseconds now = now_on(CLOCK_MONOTONIC);
    drain_rings();
    drain_others();
    if (now - ticked_ > std::chrono::seconds(1)) {
        ticked_ = now;
        tick(now);
    }
    if (now - rescanned_ >= rescan_interval_) {
        rescanned_ = now;
        processes().scan(now);
        rescan();
    }
}

ebpf::Wakeups BpfProbeBase::wakeups() const {
    std::vector<int> rings;
    for (const auto &ring : rings_) {
        rings.push_back(ring->fd());
    }
    return is_loaded_ ? ebpf::wakeups_of(object(), std::move(rings)) : ebpf::Wakeups();
}

std::vector<series::FamilySnapshot> BpfProbeBase::report() {
    if (is_loaded_) {
        refresh();
    }
    auto snapshots = families().snapshots();
    if (const auto own = is_loaded_ ? gauges() : std::nullopt) {
        page_families_.add(*own, snapshots);
    }
    return snapshots;
}

std::map<std::string, std::uint64_t> BpfProbeBase::folded() const {
    auto folded = families().folded();
    page_families_.add_to(folded);
    return folded;
}

Health BpfProbeBase::health() const {
    Health health = state_.health();
    health.undecodable = undecodable_;
    if (is_loaded_) {
        if (const auto account =
                ebpf::read_account(bpf_map__fd(ebpf::find_map(object(), "account")))) {
            health.account = *account;
        }
        add_others(health.account);
        health.runs = runs();
    }
    return health;
}

}  // namespace gpusnoop::probes
