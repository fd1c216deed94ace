#include "exporter/probes/frame/processes/target_table.h"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <fnmatch.h>
#include <poll.h>
#include <sys/eventfd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <string_view>
#include <utility>

#include "bpf/lib/processes/process.h"
#include "exporter/base/glob.h"
#include "exporter/base/log.h"
#include "exporter/base/text/text.h"
#include "exporter/config/globs.h"
#include "exporter/config/reader.h"
#include "exporter/ebpf/maps/hash_map.h"
#include "exporter/probes/frame/processes/process_identity.h"
#include "exporter/processes/proc.h"
#include "exporter/system/machine.h"
#include "targets.skel.h"

namespace gpusnoop::probes {

namespace {

constexpr std::size_t max_pids = 1'000;
constexpr std::size_t short_id = 12;  // as container runtimes print it
constexpr std::size_t whole_id = 64;

std::string container_problem(const std::string &id) {
    if (id.size() < short_id || id.size() > whole_id ||
        id.find_first_not_of("0123456789abcdef") != std::string::npos) {
        return in_quotes(id) + " is not a container's id: its first 12 to 64 hexadecimal digits";
    }
    return "";
}

std::vector<std::uint32_t> read_pids(const std::vector<config::Value> &items) {
    std::vector<std::uint32_t> pids;
    for (const config::Value &item : items) {
        if (const auto pid = item.integer(1, 1U << 22U)) {
            pids.push_back(*pid);
        }
    }
    return pids;
}

}  // namespace

bool names_any(const TargetsConfig &targets) {
    return !targets.all_processes && (!targets.pids.empty() || !targets.parents.empty() ||
                                      !targets.comms.empty() || !targets.containers.empty());
}

void read_targets(config::Section targets, config::Config &config) {
    TargetsConfig value;
    targets.boolean("gpu_processes", value.gpu_processes);
    targets.accept_old_name("all_processes", "everything");
    targets.boolean("all_processes", value.all_processes);
    if (const config::Value *pids = targets.find("pids")) {
        if (const auto items = pids->list("a list of process ids", "process ids", 0, max_pids)) {
            value.pids = read_pids(*items);
        }
    }
    std::vector<std::string> pids;
    for (const std::uint32_t pid : value.pids) {
        pids.push_back(std::to_string(pid));
    }
    targets.note("pids", pids);
    targets.texts("comms", "names of processes", value.comms, config::glob_problem);
    targets.texts("containers", "ids of containers", value.containers, container_problem);
    targets.finish();
    config.set(std::move(value));
}

namespace {

using std::chrono::nanoseconds;

template <std::size_t N>
std::string text_of(const char (&bytes)[N]) {
    return {bytes, ::strnlen(bytes, N)};
}

// The length of a token that matches one character: a character, an escaped one, or a bracket. 0:
// an unclosed bracket, or a backslash at the end.
std::size_t token_length(std::string_view glob) {
    if (glob.front() == '\\') {
        return glob.size() > 1 ? 2 : 0;
    }
    if (glob.front() != '[') {
        return 1;
    }
    std::size_t at = 1;
    if (at < glob.size() && (glob[at] == '!' || glob[at] == '^')) {
        at++;
    }
    // A closing bracket that comes first is a member.
    for (std::size_t first = at; at < glob.size(); at++) {
        if (glob[at] == ']' && at > first) {
            return at + 1;
        }
        if (glob[at] == '\\') {
            at++;
        } else if (glob[at] == '[' && at + 1 < glob.size() &&
                   std::string_view(":.=").find(glob[at + 1]) != std::string_view::npos) {
            const std::string end = {glob[at + 1], ']'};
            const std::size_t closed = glob.find(end, at + 2);
            if (closed != std::string_view::npos) {
                at = closed + 1;
            }
        }
    }
    return 0;
}

// The globs that the BPF programs match themselves.
std::vector<target_pattern> patterns_of(const TargetsConfig &config) {
    std::vector<target_pattern> patterns;
    for (const std::string &glob : config.comms) {
        if (auto pattern = compile_comm_pattern(glob);
            pattern && patterns.size() < TARGET_PATTERNS) {
            patterns.push_back(*pattern);
        }
    }
    return patterns;
}

}  // namespace

std::optional<target_pattern> compile_comm_pattern(const std::string &glob) {
    target_pattern pattern{};
    std::uint32_t length = 0;
    std::uint32_t stars = 0;
    std::string_view rest = glob;
    while (!rest.empty()) {
        if (rest.front() == '*') {
            stars |= 1U << length;
            rest.remove_prefix(1);
            continue;
        }
        if (++length >= PROCESS_COMM_BYTES) {
            return std::nullopt;
        }
        const std::string token(rest.substr(0, token_length(rest)));
        if (token.empty()) {
            return std::nullopt;
        }
        rest.remove_prefix(token.size());
        for (unsigned byte = 1; byte < 256; byte++) {
            const std::string one(1, static_cast<char>(byte));
            if (::fnmatch(token.c_str(), one.c_str(), 0) == 0) {
                pattern.next[byte] |= 1U << length;
            }
        }
    }
    for (unsigned byte = 1; byte < 256; byte++) {
        pattern.stays[byte] = stars;
    }
    pattern.stays[0] = ~0U;
    pattern.whole = length;
    return pattern;
}

TargetTable::TargetTable(const TargetsConfig &config, nanoseconds rescan_interval)
    : config_(config), rescan_interval_(rescan_interval) {}
TargetTable::~TargetTable() = default;

Result<std::unique_ptr<TargetTable>> TargetTable::start(const TargetsConfig &config,
                                                        nanoseconds rescan_interval) {
    std::unique_ptr<TargetTable> table(new TargetTable(config, rescan_interval));
    if (auto loaded = table->load(); !loaded) {
        return tl::unexpected(loaded.error());
    }
    if (auto attached = table->attach(); !attached) {
        return tl::unexpected(attached.error());
    }
    table->rescan();
    table->thread_ =
        std::jthread([self = table.get()](const std::stop_token &stop) { self->run(stop); });
    return table;
}

Result<> TargetTable::load() {
    skeleton_.reset(targets_bpf::open());
    if (!skeleton_) {
        return fail_errno("open the BPF programs that follow the processes of targets");
    }
    const std::vector<target_pattern> patterns = patterns_of(config_);
    skeleton_->rodata->pattern_count = static_cast<std::uint32_t>(patterns.size());
    const std::size_t parents = std::min<std::size_t>(config_.parents.size(), TARGET_PARENTS);
    std::copy_n(config_.parents.begin(), parents, skeleton_->rodata->parents);
    skeleton_->rodata->parent_count = static_cast<std::uint32_t>(parents);
    ebpf::grow_on_demand(skeleton_->maps.target_procs);
    if (const int error = targets_bpf::load(skeleton_.get()); error != 0) {
        return fail_errno("load the BPF programs that follow the processes of targets", -error);
    }
    for (std::uint32_t i = 0; i < patterns.size(); i++) {
        if (bpf_map_update_elem(bpf_map__fd(skeleton_->maps.target_patterns), &i, &patterns[i],
                                BPF_ANY) != 0) {
            return fail_errno("enter a name of targets");
        }
    }
    return {};
}

Result<> TargetTable::attach() {
    auto execs = ebpf::Ring::open(bpf_map__fd(skeleton_->maps.target_events), [this](auto bytes) {
        if (const auto record = ebpf::decode<target_exec_record>(bytes)) {
            on_exec(*record);
        }
    });
    if (!execs) {
        return tl::unexpected(execs.error());
    }
    execs_ = std::move(*execs);
    stopping_ = Fd(::eventfd(0, EFD_CLOEXEC));
    if (!stopping_) {
        return fail_errno("eventfd");
    }
    const auto &programs = skeleton_->progs;
    for (const bpf_program *program :
         {programs.target_exit, programs.target_fork, programs.target_exec}) {
        ebpf::Link link(bpf_program__attach(program));
        if (!link) {
            return fail_errno(std::string("attach to the tracepoint of ") +
                              bpf_program__name(program));
        }
        links_.push_back(std::move(link));
    }
    return {};
}

int TargetTable::map() const {
    return bpf_map__fd(skeleton_->maps.target_procs);
}

void TargetTable::run(const std::stop_token &stop) {
    const std::stop_callback wake(stop, [this] { ::eventfd_write(stopping_.get(), 1); });
    nanoseconds looked = now_on(CLOCK_MONOTONIC);
    while (!stop.stop_requested()) {
        const nanoseconds until = looked + rescan_interval_ - now_on(CLOCK_MONOTONIC);
        std::array<pollfd, 2> fds = {{{bpf_map__fd(skeleton_->maps.target_events), POLLIN, 0},
                                      {stopping_.get(), POLLIN, 0}}};
        const auto ms = std::chrono::ceil<std::chrono::milliseconds>(until).count();
        ::poll(fds.data(), fds.size(), static_cast<int>(std::max<decltype(ms)>(ms, 0)));
        execs_->drain_to(execs_->produced());
        if (now_on(CLOCK_MONOTONIC) - looked >= rescan_interval_) {
            rescan();
            looked = now_on(CLOCK_MONOTONIC);
        }
        warn_of_losses();
    }
}

void TargetTable::warn_of_losses() {
    const std::uint64_t now = __atomic_load_n(&skeleton_->bss->targets_lost, __ATOMIC_RELAXED) +
                              __atomic_load_n(&skeleton_->bss->execs_lost, __ATOMIC_RELAXED);
    if (now != std::exchange(lost_, now)) {
        log::warn("some configured processes are not traced: too many started at once",
                  {{"processes", now}});
    }
}

void TargetTable::rescan() {
    const std::vector<std::uint32_t> running = processes::all_processes();
    for (const std::uint32_t tgid : running) {
        const auto started = processes::start_time(tgid);
        if (started) {
            classify(tgid, *started, processes::parent_of(tgid).value_or(0),
                     processes::name_of(tgid),
                     processes::cgroup_owner_of(tgid, true).container.container_id);
        }
    }
    // A fallback for the BPF programs, which delete ended processes.
    std::vector<std::uint32_t> gone;
    const int map = this->map();
    (void)ebpf::for_each<std::uint32_t, target>(map, [&](std::uint32_t tgid, const target &one) {
        const nanoseconds started(static_cast<std::int64_t>(one.start_boottime_ns));
        if (processes::presence(tgid, started) == processes::Presence::gone) {
            gone.push_back(tgid);
        }
    });
    for (const std::uint32_t tgid : gone) {
        bpf_map_delete_elem(map, &tgid);
    }
}

void TargetTable::on_exec(const target_exec_record &record) {
    const auto &identity = record.identity;
    const auto container = owner_of(record.cgroup).container;
    classify(record.tgid, nanoseconds(static_cast<std::int64_t>(identity.start_boottime_ns)),
             identity.ppid, text_of(identity.comm), container.container_id);
}

void TargetTable::classify(std::uint32_t tgid, nanoseconds started, std::uint32_t parent,
                           const std::string &comm, const std::string &container) {
    const bool by_pid = std::ranges::find(config_.pids, tgid) != config_.pids.end() ||
                        std::ranges::find(config_.parents, parent) != config_.parents.end();
    const bool by_name = matches_any(config_.comms, comm) ||
                         std::ranges::any_of(config_.containers, [&](const std::string &id) {
                             return container.starts_with(id);
                         });
    const int map = this->map();
    if (!by_pid && !by_name) {
        changes_ += bpf_map_delete_elem(map, &tgid) == 0 ? 1 : 0;
        return;
    }
    target fresh{.since_ns = static_cast<std::uint64_t>(now_on(CLOCK_MONOTONIC).count()),
                 .start_boottime_ns = static_cast<std::uint64_t>(started.count()),
                 .inherited = by_name ? 1U : 0U};
    target known{};
    if (bpf_map_lookup_elem(map, &tgid, &known) == 0) {
        const auto apart = known.start_boottime_ns > fresh.start_boottime_ns
                               ? known.start_boottime_ns - fresh.start_boottime_ns
                               : fresh.start_boottime_ns - known.start_boottime_ns;
        if (apart < TARGET_CLOCK_TICK_NS) {
            if (known.inherited == fresh.inherited) {
                return;
            }
            fresh.since_ns = known.since_ns;
        }
    }
    if (bpf_map_update_elem(map, &tgid, &fresh, BPF_ANY) != 0) {
        if (!std::exchange(is_full_, true)) {
            log::warn("a process that the configuration names is not traced",
                      {{"pid", tgid}, {"reason", std::strerror(errno)}});
        }
        return;
    }
    changes_++;
    // It may have ended before it was entered. Then no BPF program deletes it.
    if (processes::presence(tgid, started) == processes::Presence::gone) {
        bpf_map_delete_elem(map, &tgid);
    }
}

}  // namespace gpusnoop::probes
