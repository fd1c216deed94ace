#include "exporter/probes/xid/probe.h"

#include <sys/utsname.h>

#include <array>
#include <atomic>
#include <charconv>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>

#include "exporter/base/log.h"
#include "exporter/base/rate_limit.h"
#include "exporter/base/result.h"
#include "exporter/config/reader.h"
#include "exporter/discovery/gpus/gpus.h"
#include "exporter/ebpf/maps/wakeups.h"
#include "exporter/probes/frame/bpf/bpf_probe.h"
#include "exporter/probes/xid/aggregator.h"
#include "exporter/system/kernel_log.h"
#include "exporter/system/machine.h"
#include "xid.skel.h"

namespace gpusnoop::probes {

namespace {

// More come at the next drain.
constexpr std::size_t lines_per_drain = 1000;

// Reads each report once. The driver writes a line into the kernel's log for each, which is read
// when it is logged, by the tracepoint printk:console, or from /dev/kmsg. By configuration, a
// tracepoint of the driver stands for its lines from the moment at which it is attached; a report
// that is made at that very moment can count twice.
class XidProbe final : public BpfProbe<xid_bpf, XidAggregator> {
public:
    explicit XidProbe(const config::Config &config)
        : BpfProbe("xid", config),
          config_(config.of<XidConfig>()),
          reads_kernel_log_(xid_reads_kernel_log(config)),
          nvidia_proc_(config.discovery.nvidia_proc_path) {}

    [[nodiscard]] std::vector<ApiPage> api_pages(std::string_view name) override {
        if (name != xids_page_name || !is_up_) {
            return {};
        }
        return {xids_page(aggregator().history().list())};
    }
    [[nodiscard]] ebpf::Wakeups wakeups() const override {
        ebpf::Wakeups wakeups = BpfProbe::wakeups();
        if (is_up_ && log_) {
            wakeups.descriptors.push_back(log_->fd());
        }
        return wakeups;
    }
    void add_to(Overview &overview) const override {
        if (is_up_) {
            overview.xids = aggregator().history().overview();
        }
    }

private:
    // A tracepoint of the driver, which exists while the driver is loaded. The link keeps the
    // driver from being unloaded.
    struct DriverTracepoint {
        const bpf_program *program;
        bool *stands_for_lines;  // of its kind
        ebpf::Link link;
    };

    Result<> configure(xid_bpf &skeleton) override;
    std::vector<ProbeRing> rings(xid_bpf &skeleton) override {
        return {{skeleton.maps.xid_events, config_.ring_bytes,
                 [this](auto bytes) { return aggregator().on_record(bytes); }}};
    }
    Result<> attach(xid_bpf &skeleton) override;
    void rescan() override;
    void drain_others() override;
    void add_others(probe_account &account) const override;

    void attach_to_driver();
    void find_gpus();

    XidConfig config_;
    bool reads_kernel_log_;
    std::string nvidia_proc_;
    bool is_up_ = false;
    std::optional<KernelLog> log_;
    LineLimit lost_lines_limit_;
    std::uint64_t lines_lost_ = 0;  // as last logged
    std::atomic<std::uint64_t> reports_read_ = 0;
    std::vector<DriverTracepoint> driver_;  // detached before the programs go
};

Result<> XidProbe::configure(xid_bpf &skeleton) {
    const bool by_driver = config_.source == XidConfig::Source::driver;
    bpf_program__set_autoload(skeleton.progs.xid_console, !reads_kernel_log_);
    bpf_program__set_autoload(skeleton.progs.xid_gpu, by_driver);
    bpf_program__set_autoload(skeleton.progs.xid_switch, by_driver);
    if (!reads_kernel_log_) {
        return {};
    }
    auto opened = KernelLog::open();
    if (!opened && config_.source == XidConfig::Source::kmsg) {
        return tl::unexpected(opened.error());
    }
    if (!opened) {
        return fail_unsupported(
            "before Linux 5.19 the driver's reports are read from /dev/kmsg, and docs/xid.md says "
            "how to allow that: " +
            opened.error().message);
    }
    log_ = *std::move(opened);
    return {};
}

Result<> XidProbe::attach(xid_bpf &skeleton) {
    if (config_.count_written_lines) {
        aggregator().count_written_lines();
    }
    find_gpus();
    if (!log_) {
        const std::array<const bpf_program *, 1> programs = {skeleton.progs.xid_console};
        if (auto attached = attach_each(programs); !attached) {
            return attached;
        }
    }
    if (config_.source == XidConfig::Source::driver) {
        driver_.push_back({skeleton.progs.xid_gpu, &skeleton.bss->xid_by_driver, {}});
        driver_.push_back({skeleton.progs.xid_switch, &skeleton.bss->sxid_by_driver, {}});
    }
    is_up_ = true;
    attach_to_driver();
    return {};
}

void XidProbe::attach_to_driver() {
    std::size_t attached = 0;
    for (DriverTracepoint &one : driver_) {
        if (!one.link) {
            one.link = ebpf::Link(bpf_program__attach(one.program));
            *one.stands_for_lines = static_cast<bool>(one.link);
        }
        attached += one.link ? 1 : 0;
    }
    std::string how = log_ ? "reads /dev/kmsg" : "reads each line that the kernel logs";
    if (!driver_.empty()) {
        how += "; " + std::to_string(attached) + " of the driver's 2 tracepoints are attached";
    }
    state().up(1 + attached, std::move(how));
}

void XidProbe::find_gpus() {
    aggregator().set_gpus(discovery::read_gpus(nvidia_proc_));
}

void XidProbe::rescan() {
    attach_to_driver();
    if (!aggregator().knows_gpus()) {
        find_gpus();
    }
}

void XidProbe::drain_others() {
    if (!log_) {
        return;
    }
    log_->read(lines_per_drain, [this](const KernelLogLine &line) {
        const bool is_switch = line.text.starts_with("nvidia-nvswitch");
        const auto &stands = skeleton().bss;
        if (is_switch ? stands->sxid_by_driver : stands->xid_by_driver) {
            return;
        }
        if (aggregator().on_line(line.text, line.written_by_program, now_on(CLOCK_MONOTONIC))) {
            reports_read_++;
        }
    });
    if (log_->lines_lost() > lines_lost_ &&
        lost_lines_limit_.due("lines of the kernel's log were overwritten before they were read")) {
        log::warn("lines of the kernel's log were overwritten before they were read",
                  {{"probe", "xid"}, {"lines", log_->lines_lost() - lines_lost_}});
        lines_lost_ = log_->lines_lost();
    }
}

void XidProbe::add_others(probe_account &account) const {
    const std::uint64_t reports = reports_read_;
    account.entered += reports;
    account.events += reports;
}

constexpr std::string_view xid_pages[] = {xids_page_name};

}  // namespace

constinit const ProbeKind xid_kind = {
    .name = "xid",
    .title = "Errors that the driver reports",
    .make = make_if_enabled<XidProbe, XidConfig>,
    .read = read_xid,
    .reads_kernel_log = xid_reads_kernel_log,
    .declare = declare_families<make_xid_families>,
    .counts = {.entries = true, .lost = lost_for({LOST_ring_full})},
    .api_pages = xid_pages,
};

namespace {

using Source = XidConfig::Source;

constexpr std::pair<std::string_view, Source> sources[] = {{"auto", Source::automatic},
                                                           {"driver", Source::driver},
                                                           {"printk", Source::printk},
                                                           {"kmsg", Source::kmsg}};

// The tracepoint printk:console has every line when it is logged since Linux 5.19 (commit
// 701850dc0c31); before, it had a line when it was shown on a console, and not those that are not
// shown. Nothing but the version says which it is.
bool traces_lines_when_logged() {
    constexpr std::pair<unsigned, unsigned> first{5, 19};
    struct utsname names{};
    if (::uname(&names) != 0) {
        return false;
    }
    const std::string_view release = names.release;
    const char *const end = release.data() + release.size();
    std::pair<unsigned, unsigned> version;
    const auto major = std::from_chars(release.data(), end, version.first);
    if (major.ec != std::errc() || major.ptr == end || *major.ptr != '.') {
        return false;
    }
    (void)std::from_chars(major.ptr + 1, end, version.second);
    return version >= first;
}

}  // namespace

void read_xid(config::Section xid, config::Config &config) {
    XidConfig value;
    xid.boolean("enabled", value.enabled);
    xid.choice("source", value.source, sources);
    xid.boolean("count_written_lines", value.count_written_lines);
    xid.ring_bytes("ring_bytes", value.ring_bytes);
    xid.finish();
    config.set(value);
}

bool xid_reads_kernel_log(const config::Config &config) {
    const auto &xid = config.of<XidConfig>();
    if (!xid.enabled || xid.source == Source::printk) {
        return false;
    }
    return xid.source == Source::kmsg || !traces_lines_when_logged();
}

}  // namespace gpusnoop::probes
