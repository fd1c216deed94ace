#include "exporter/ebpf/mappings/mmap_events.h"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <linux/perf_event.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <ctime>
#include <span>
#include <utility>
#include <vector>

#include "bpf/processes/mappings.h"
#include "exporter/base/fd.h"
#include "exporter/ebpf/libbpf.h"
#include "exporter/ebpf/maps/ring.h"
#include "exporter/ebpf/object.h"
#include "mmap_events.skel.h"

namespace gpusnoop::ebpf {

namespace {

// For each CPU: 16 KiB of records, about 100 of them between two reads.
constexpr std::size_t data_pages = 4;

std::size_t page_bytes() {
    return static_cast<std::size_t>(::getpagesize());
}

// The start of PERF_RECORD_MMAP2 in include/uapi/linux/perf_event.h; the path follows.
struct Mmap2 {
    perf_event_header header;
    std::uint32_t pid;
    std::uint32_t tid;
    std::uint64_t address;
    std::uint64_t length;
    std::uint64_t page_offset;
    std::uint32_t major;
    std::uint32_t minor;
    std::uint64_t inode;
    std::uint64_t generation;
    std::uint32_t protection;
    std::uint32_t flags;
};
static_assert(sizeof(Mmap2) == 72);

// Ends each record (sample_id_all with PERF_SAMPLE_TIME alone).
using Time = std::uint64_t;

struct Lost {
    perf_event_header header;
    std::uint64_t id;
    std::uint64_t count;
};

struct Buffer {
    Fd event;
    std::byte *base = nullptr;

    Buffer() = default;
    Buffer(const Buffer &) = delete;
    Buffer &operator=(const Buffer &) = delete;
    ~Buffer() {
        if (base != nullptr) {
            ::munmap(base, (1 + data_pages) * page_bytes());
        }
    }

    Result<> open(int cpu) {
        perf_event_attr attr{};
        attr.size = sizeof(attr);
        attr.type = PERF_TYPE_SOFTWARE;
        attr.config = PERF_COUNT_SW_DUMMY;
        attr.mmap = 1;
        attr.mmap2 = 1;
        attr.sample_type = PERF_SAMPLE_TIME;
        attr.sample_id_all = 1;
        attr.use_clockid = 1;
        attr.clockid = CLOCK_MONOTONIC;
        attr.watermark = 1;
        attr.wakeup_watermark = 1;  // byte: each record makes it readable
        event = Fd(static_cast<int>(
            ::syscall(SYS_perf_event_open, &attr, -1, cpu, -1, PERF_FLAG_FD_CLOEXEC)));
        if (!event) {
            return fail_errno("open perf's mapping events");
        }
        void *mapped = ::mmap(nullptr, (1 + data_pages) * page_bytes(), PROT_READ | PROT_WRITE,
                              MAP_SHARED, event.get(), 0);
        if (mapped == MAP_FAILED) {
            return fail_errno("map perf's mapping events");
        }
        base = static_cast<std::byte *>(mapped);
        return {};
    }

    [[nodiscard]] perf_event_mmap_page *page() const {
        return reinterpret_cast<perf_event_mmap_page *>(base);
    }

    // Copies out of the circular data area.
    void copy(std::uint64_t position, std::byte *out, std::size_t bytes) const {
        const std::size_t size = data_pages * page_bytes();
        const std::size_t at = position % size;
        const std::size_t first = std::min(bytes, size - at);
        const std::byte *data = base + page_bytes();
        std::memcpy(out, data + at, first);
        std::memcpy(out + first, data, bytes - first);
    }
};

class PerfMmapEvents final : public MmapEvents {
public:
    Result<> start() {
        readiness_ = Fd(::epoll_create1(EPOLL_CLOEXEC));
        if (!readiness_) {
            return fail_errno("make an epoll");
        }
        const auto cpus = possible_cpus();
        if (!cpus) {
            return tl::unexpected(cpus.error());
        }
        for (int cpu = 0; cpu < static_cast<int>(*cpus); cpu++) {
            auto buffer = std::make_unique<Buffer>();
            const auto opened = buffer->open(cpu);
            if (!opened && opened.error().code == ENODEV) {
                continue;  // an offline CPU; if it comes online, the slow rescan covers it
            }
            if (!opened) {
                return opened;
            }
            epoll_event interest{};
            interest.events = EPOLLIN;
            if (::epoll_ctl(readiness_.get(), EPOLL_CTL_ADD, buffer->event.get(), &interest) != 0) {
                return fail_errno("wait for perf's mapping events");
            }
            buffers_.push_back(std::move(buffer));
        }
        return {};
    }
    std::uint64_t read(const OnMap &on_map) override;
    [[nodiscard]] int readiness() const override { return readiness_.get(); }

private:
    Fd readiness_;  // an epoll of all buffers
    std::vector<std::unique_ptr<Buffer>> buffers_;
};

std::uint64_t PerfMmapEvents::read(const OnMap &on_map) {
    std::uint64_t dropped = 0;
    std::array<std::byte, 1 << 16> record;  // perf_event_header::size has 16 bits
    for (const auto &buffer : buffers_) {
        perf_event_mmap_page *page = buffer->page();
        const std::uint64_t head = __atomic_load_n(&page->data_head, __ATOMIC_ACQUIRE);
        std::uint64_t tail = page->data_tail;
        while (tail + sizeof(perf_event_header) <= head) {
            perf_event_header header;
            buffer->copy(tail, reinterpret_cast<std::byte *>(&header), sizeof(header));
            if (header.size < sizeof(header) || tail + header.size > head) {
                tail = head;  // not a record of the kernel: skip it all, scan all processes
                dropped++;
                break;
            }
            buffer->copy(tail, record.data(), header.size);
            tail += header.size;
            if (header.type == PERF_RECORD_MMAP2 && header.size > sizeof(Mmap2) + sizeof(Time)) {
                Mmap2 mapped;
                Time at = 0;
                const std::size_t path_ends = header.size - sizeof(at);
                std::memcpy(&mapped, record.data(), sizeof(mapped));
                std::memcpy(&at, record.data() + path_ends, sizeof(at));
                const char *path = reinterpret_cast<const char *>(record.data()) + sizeof(mapped);
                on_map(mapped.pid, {path, ::strnlen(path, path_ends - sizeof(mapped))},
                       std::chrono::nanoseconds(static_cast<std::int64_t>(at)));
            } else if (header.type == PERF_RECORD_LOST && header.size >= sizeof(Lost)) {
                Lost lost;
                std::memcpy(&lost, record.data(), sizeof(lost));
                dropped += lost.count;
            }
        }
        __atomic_store_n(&page->data_tail, tail, __ATOMIC_RELEASE);
    }
    return dropped;
}

}  // namespace

Result<std::unique_ptr<MmapEvents>> MmapEvents::open_perf() {
    auto events = std::make_unique<PerfMmapEvents>();
    if (const auto started = events->start(); !started) {
        return tl::unexpected(started.error());
    }
    return events;
}

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

Result<std::unique_ptr<MmapEvents>> MmapEvents::open() {
    auto events = open_perf();
    if (events || (events.error().code != EACCES && events.error().code != EPERM)) {
        return events;
    }
    auto others = open_bpf();
    return others ? std::move(others)
                  : fail(events.error().message + ", and " + others.error().message,
                         events.error().code);
}

}  // namespace gpusnoop::ebpf
