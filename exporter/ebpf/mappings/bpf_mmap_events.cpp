#include <bpf/bpf.h>
#include <bpf/libbpf.h>

#include <cstring>
#include <span>
#include <utility>

#include "bpf/processes/mmap_events.h"
#include "exporter/ebpf/attach/link.h"
#include "exporter/ebpf/mappings/mmap_events.h"
#include "exporter/ebpf/maps/record.h"
#include "exporter/ebpf/maps/ring.h"
#include "exporter/ebpf/skeleton.h"
#include "mmap_events.skel.h"

namespace gpusnoop::ebpf {

namespace {

class BpfMmapEvents final : public MmapEvents {
public:
    Result<> start() {
        skeleton_.reset(mmap_events_bpf::open_and_load());
        if (!skeleton_) {
            return fail_errno("load the BPF program that hears of mappings");
        }
        auto ring = Ring::open(bpf_map__fd(skeleton_->maps.mmap_events),
                               [this](std::span<const std::byte> bytes) { on_record(bytes); });
        if (!ring) {
            return tl::unexpected(ring.error());
        }
        ring_ = std::move(*ring);
        link_ = Link(bpf_program__attach(skeleton_->progs.mmap_made));
        return link_ ? Result<>() : fail_errno("attach to the kernel's mappings");
    }

    std::uint64_t read(const OnMap &on_map) override {
        on_map_ = &on_map;
        ring_->drain_to(ring_->produced());
        on_map_ = nullptr;
        const std::uint64_t dropped = __atomic_load_n(&skeleton_->bss->dropped, __ATOMIC_RELAXED);
        return dropped - std::exchange(dropped_, dropped);
    }

    [[nodiscard]] int readiness() const override {
        return bpf_map__fd(skeleton_->maps.mmap_events);
    }

private:
    void on_record(std::span<const std::byte> bytes) const {
        if (const auto event = decode<mmap_event>(bytes); event && on_map_ != nullptr) {
            (*on_map_)(event->tgid, {event->name, ::strnlen(event->name, sizeof(event->name))},
                       std::chrono::nanoseconds(static_cast<std::int64_t>(event->at_ns)));
        }
    }

    Skeleton<mmap_events_bpf> skeleton_;
    std::unique_ptr<Ring> ring_;
    Link link_;
    const OnMap *on_map_ = nullptr;  // during read()
    std::uint64_t dropped_ = 0;
};

}  // namespace

Result<std::unique_ptr<MmapEvents>> MmapEvents::open_bpf() {
    auto events = std::make_unique<BpfMmapEvents>();
    if (const auto started = events->start(); !started) {
        return tl::unexpected(started.error());
    }
    return events;
}

}  // namespace gpusnoop::ebpf
