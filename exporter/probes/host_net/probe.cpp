#include "exporter/probes/host_net/probe.h"

#include <bpf/bpf.h>

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "exporter/base/log.h"
#include "exporter/base/result.h"
#include "exporter/config/reader.h"
#include "exporter/ebpf/libbpf.h"
#include "exporter/ebpf/maps/hash_map.h"
#include "exporter/ebpf/object.h"
#include "exporter/probes/frame/budget.h"
#include "exporter/probes/frame/host_probe.h"
#include "exporter/probes/frame/host_settings.h"
#include "exporter/probes/frame/processes/followed_processes.h"
#include "exporter/probes/frame/trace/event_tracer.h"
#include "exporter/probes/host_net/aggregator.h"
#include "exporter/probes/host_net/cgroups.h"
#include "exporter/probes/host_net/connections.h"
#include "exporter/symbols/names/syscall_names.h"
#include "exporter/system/machine.h"
#include "exporter/trace/lines.h"
#include "host_net.skel.h"

namespace gpusnoop::probes {

namespace {

using std::chrono::nanoseconds;

constexpr auto udp_tracepoint = "udp_fail_queue_rcv_skb";
constexpr std::chrono::seconds least_between_looks{1};

using OnTcpState = std::function<void(const net_state_record &, const ProcessIdentity &)>;

class HostNetProbe final : public HostProbe<host_net_bpf, HostNetAggregator> {
public:
    // `trace`: instead of counts.
    HostNetProbe(const config::Config &config, TracedProcessesPtr traced, OnTcpState trace = {})
        : HostProbe("host_net", config, std::move(traced)),
          settings_(config.of<HostNetConfig>()),
          retention_(config.series.retention),
          budget_(budget_of(config)),
          pid_label_(config.labels.pid),
          cgroups_(config.of<HostConfig>().cgroup_path, config.discovery.rescan_interval),
          trace_(std::move(trace)) {}

    [[nodiscard]] std::vector<ApiPage> api_pages(std::string_view name) override;

private:
    [[nodiscard]] bool is_trace() const { return trace_ != nullptr; }

    Result<> configure_programs(host_net_bpf &skeleton) override {
        skeleton.rodata->tracing = is_trace();
        sees_drops_ = !is_trace() && ebpf::has_tracepoint(udp_tracepoint) &&
                      ebpf::has_member("sock_cgroup_data", "cgroup");
        ebpf::load_if(skeleton.progs.net_drop, sees_drops_);
        return {};
    }

    std::vector<ProbeRing> rings(host_net_bpf &skeleton) override {
        return ring_of_trace<net_state_record>(
            skeleton.maps.net_events, [this](const auto &) { return trace_ != nullptr; },
            [this](const auto &record, const auto &process) { trace_(record, process); });
    }

    Result<> attach(host_net_bpf &skeleton) override;

    // For processes that ended before the reading, it has their last counts.
    void tick(nanoseconds now) override;
    void refresh() override { read_tables(); }
    std::optional<series::FamilySet> gauges() const override {
        series::FamilySet set(budget_, pid_label_);
        aggregator().add_page(set);
        return set;
    }

    void look(nanoseconds now);
    void read_tables();
    // The entries of processes that are forgotten are deleted.
    void read_drops();
    void forget_other_drops();

    HostNetConfig settings_;
    nanoseconds retention_;
    series::Budget budget_;
    bool pid_label_;
    NetCgroups cgroups_;
    OnTcpState trace_;
    std::optional<NetLooks> looks_;  // while the probe is up
    bool sees_drops_ = false;
    bool is_look_due_ = true;  // a process was not followed before, and may have connections
    nanoseconds looked_{};
};

Result<> HostNetProbe::attach(host_net_bpf &skeleton) {
    std::vector<const bpf_program *> programs = {skeleton.progs.net_state};
    if (sees_drops_) {
        programs.push_back(skeleton.progs.net_drop);
    }
    if (auto attached = attach_each(programs); !attached) {
        return attached;
    }
    looks_.emplace(skeleton);
    followed().on_record([this](const auto &record, const auto &) {
        is_look_due_ = is_look_due_ || (record.head.type == FOLLOW_STARTED &&
                                        (record.reasons & FOLLOWED_CHILD) == 0);
    });
    look(now_on(CLOCK_MONOTONIC));
    state().up(programs.size() + 1, "following " + traced().describe_followed());
    log::info("following TCP connections",
              {{"probe", "host_net"}, {"of", traced().describe_followed()}});
    return {};
}

void HostNetProbe::tick(nanoseconds now) {
    read_tables();
    followed().end_gone(aggregator().processes(), now);
    if (now - looked_ >= settings_.look_interval ||
        (is_look_due_ && now - looked_ >= least_between_looks)) {
        look(now);
    }
    (void)aggregator().processes().tidy(now);
    aggregator().forget_cgroups(now - retention_);
}

void HostNetProbe::look(nanoseconds now) {
    is_look_due_ = false;
    looked_ = now;
    followed().drain();  // who the processes are
    const auto running = followed().running();
    aggregator().begin_look();
    const auto done = looks_->look(running, [&](const net_connection &connection) {
        aggregator().on_connection(connection, settings_.max_sockets);
    });
    if (!done) {
        log::warn("cannot read the connections of followed processes",
                  {{"reason", done.error().message}});
    }
    if (sees_drops_) {
        aggregator().use_cgroups(cgroups_.of(running, followed(), now), now);
        read_drops();
        forget_other_drops();
    }
}

void HostNetProbe::read_tables() {
    read_counts<net_key, net_traffic>(
        skeleton().maps.net_traffic, "bytes of connections",
        [&](const net_key &key, const net_traffic &now) { aggregator().on_traffic(key, now); });
    read_counts<net_key, net_connects>(
        skeleton().maps.net_connects, "connects",
        [&](const net_key &key, const net_connects &now) { aggregator().on_connects(key, now); });
    read_drops();
}

void HostNetProbe::read_drops() {
    const bpf_map *const map = skeleton().maps.net_drops;
    const auto read = ebpf::for_each_lookup<std::uint64_t, std::uint64_t>(
        bpf_map__fd(map), bpf_map__max_entries(map),
        [&](std::uint64_t cgroup, std::uint64_t now) { aggregator().on_drops(cgroup, now); });
    if (!read) {
        log::warn("cannot read the table of dropped datagrams", {{"reason", read.error().message}});
    }
}

// Of cgroups that nobody follows, so that the table does not fill up.
void HostNetProbe::forget_other_drops() {
    const bpf_map *const map = skeleton().maps.net_drops;
    std::vector<std::uint64_t> others;
    (void)ebpf::for_each_lookup<std::uint64_t, std::uint64_t>(
        bpf_map__fd(map), bpf_map__max_entries(map), [&](std::uint64_t cgroup, std::uint64_t) {
            if (!aggregator().is_in_use(cgroup)) {
                others.push_back(cgroup);
            }
        });
    for (const std::uint64_t cgroup : others) {
        bpf_map_delete_elem(bpf_map__fd(map), &cgroup);
    }
}

std::vector<ApiPage> HostNetProbe::api_pages(std::string_view name) {
    if (name != connections_page_name || !looks_) {
        return {};
    }
    if (const nanoseconds now = now_on(CLOCK_MONOTONIC); now - looked_ >= least_between_looks) {
        look(now);
    }
    const auto &last = aggregator().last_look();
    return {connections_page(aggregator().named_connections(), last.left_out)};
}

constexpr KernelNeed net_needs[] = {
    {.thing = "the tracepoint of TCP states",
     .reason = "the kernel has no sock:inet_sock_set_state",
     .costs = "the probe fails",
     .is_met = has_tracepoints<"inet_sock_set_state">},
    {.thing = "the tracepoint of lost UDP datagrams",
     .reason = "the kernel has no udp:udp_fail_queue_rcv_skb",
     .costs = "gpusnoop_host_udp_receive_drops_total is absent",
     .is_met = has_tracepoints<"udp_fail_queue_rcv_skb">},
    {.thing = "the cgroups of sockets",
     .reason = "the kernel is built without CONFIG_CGROUPS, or is older than 5.15",
     .costs = "gpusnoop_host_udp_receive_drops_total is absent",
     .is_met = has_member<"sock_cgroup_data", "cgroup">},
};

constexpr const trace::Kind *net_traces[] = {&trace::tcp_trace};

constexpr std::string_view host_net_pages[] = {connections_page_name};

}  // namespace

constinit const ProbeKind host_net_kind = {
    .name = "host_net",
    .title = "Connections of processes",
    .make = make_if_enabled<HostNetProbe, HostNetConfig>,
    .read_host = read_host_net,
    .follows_processes = is_enabled<HostNetConfig>,
    .kernel_needs = net_needs,
    .declare = declare_families<make_host_net_families, make_host_net_page_families>,
    .counts = {.entries = true,
               .in_flight = true,
               .stale = true,
               .lost =
                   lost_for({LOST_ring_full, LOST_no_state, LOST_process_table, LOST_table_full})},
    .api_pages = host_net_pages,
    .named_traces = net_traces,
};

using namespace std::chrono_literals;

void read_host_net(config::Section &host, config::Config &config) {
    constexpr std::uint32_t most_sockets = 1'048'576;
    HostNetConfig value;
    config::Section net = host.section("net");
    net.boolean("enabled", value.enabled);
    net.duration("look_interval", value.look_interval, 1s, 5min);
    net.integer("max_sockets", value.max_sockets, 0, most_sockets);
    net.finish();
    config.set(value);
}

}  // namespace gpusnoop::probes

namespace gpusnoop::trace {

Event event_of(const net_state_record &record, const probes::ProcessIdentity &process,
               std::int64_t clock_offset_ns) {
    Event event =
        make_event(began_ns(record.head.at_ns, 0, clock_offset_ns), record.head.tgid, 0, process,
                   "new_state", std::string(probes::tcp_state_name(record.new_state)));
    event.details = {
        {"role", std::string(probes::followed_role_names.at(record.role))},
        {"old_state", std::string(probes::tcp_state_name(record.old_state))},
        {"in_state_ns",
         record.in_state_ns != 0 ? Value(std::uint64_t{record.in_state_ns}) : Value()},
        {"local", probes::local_address(record.addresses)},
        {"remote", probes::remote_address(record.addresses)},
        {"peer", std::string(probes::peer_name(record.addresses.peer))},
        {"error", record.error != 0 ? Value(std::string(errno_name(record.error))) : Value()}};
    return event;
}

constinit const Kind tcp_trace = {
    .name = "tcp",
    .help = "State changes of TCP connections of GPU processes and the processes they start.",
    .column = "STATE",
    .make = make<TargetRecordTracer<HostTracer, probes::HostNetProbe, net_state_record, event_of>>};

}  // namespace gpusnoop::trace
