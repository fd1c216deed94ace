// What all probes of one BPF object have in common, without BPF.
#include <unistd.h>

#include <catch2/catch_test_macros.hpp>
#include <chrono>
#include <cstring>

#include "bpf/lib/traced.h"
#include "exporter/base/result.h"
#include "exporter/probes/frame/bpf/bpf_probe.h"
#include "exporter/probes/frame/libraries/attached_libraries.h"
#include "exporter/probes/frame/registry.h"
#include "exporter/processes/proc.h"
#include "tests/unit/probes/driver_records.h"

using namespace gpusnoop;
using namespace gpusnoop::probes;
using namespace std::chrono_literals;

namespace {

constexpr std::uint32_t nobody = 0x7fffffff;  // no process has this id

std::span<const std::byte> bytes_of(const auto &record) {
    return std::as_bytes(std::span(&record, 1));
}

SeriesSettings settings(std::chrono::nanoseconds retention = 1min) {
    return {.budget = [](std::string_view) { return 1000U; },
            .retention = retention,
            .look_up = [](ProcessIdentity &) { return false; }};
}

// A table with one counter that counts what each process does.
struct Counted {
    explicit Counted(std::chrono::nanoseconds grace = {})
        : processes(families, settings(), grace) {}

    series::FamilySet families{[](std::string_view) { return 1000U; }, false};
    series::Family &done = families.counter("done_total", "Help.", {});
    struct Process : KnownProcess {
        int state = 0;
    };
    ProcessTable<Process> processes;

    void count(const KnownProcess &process) {
        done.add(done.slot(process.owner, process.labels), 1);
    }
    void start(const ProcessKey &key, const char *comm) {
        traced_start_record record{};
        record.head = {key.since_ns, key.since_ns, key.tgid, PROCESS_STARTED};
        record.identity = identity_of(comm, 5);
        CHECK(processes.on_record(bytes_of(record)));
    }
    void go(const ProcessKey &key, std::chrono::nanoseconds at) {
        CHECK(processes.on_record(bytes_of(traced_end_record{
            {static_cast<std::uint64_t>(at.count()), key.since_ns, key.tgid, PROCESS_ENDED},
            0,
            0})));
    }
    [[nodiscard]] std::size_t series() const { return families.snapshots()[0].labels.size(); }
};

struct Nothing {
    explicit Nothing(const SeriesSettings &settings)
        : set(settings.budget, settings.pid_label), table(set, settings) {}
    [[nodiscard]] const series::FamilySet &families() const { return set; }
    [[nodiscard]] ProcessTableBase &processes() { return table; }
    series::FamilySet set;
    ProcessTable<> table;
};

// What bpftool's skeletons have.
struct EmptySkeleton {
    static EmptySkeleton *open() { return can_open ? new EmptySkeleton : nullptr; }
    static int load(EmptySkeleton *) { return -EPERM; }
    static void destroy(EmptySkeleton *skeleton) { delete skeleton; }

    static inline bool can_open = true;
    bpf_object *obj = nullptr;
};

class FailingProbe final : public BpfProbe<EmptySkeleton, Nothing> {
public:
    explicit FailingProbe(bool can_configure)
        : BpfProbe("failing", config::Config{}), can_configure_(can_configure) {}

private:
    Result<> configure(EmptySkeleton &) override {
        return can_configure_ ? Result<>() : fail_unsupported("this kernel has no such tracepoint");
    }
    std::vector<ProbeRing> rings(EmptySkeleton &) override { return {}; }
    Result<> attach(EmptySkeleton &) override {
        FAIL("attached though it was not loaded");
        return {};
    }

    bool can_configure_;
};

class NamedProbe final : public Probe {
public:
    explicit NamedProbe(std::string name) : name_(std::move(name)) {}
    Result<> start() override { return {}; }
    void drain() override {}
    std::vector<series::FamilySnapshot> report() override { return {}; }
    [[nodiscard]] std::map<std::string, std::uint64_t> folded() const override { return {}; }
    [[nodiscard]] Health health() const override {
        Health health;
        health.name = name_;
        health.state = ProbeState::up;
        return health;
    }

private:
    std::string name_;
};

void is_down(FailingProbe &probe, const std::string &reason,
             ProbeState state = ProbeState::failed) {
    const Health health = probe.health();
    CHECK(health.name == "failing");
    CHECK(health.state == state);
    CHECK(health.detail == reason);
    CHECK(health.attached_functions == 0);
    probe.drain();
    CHECK(probe.report().empty());
}

}  // namespace

TEST_CASE("a probe that a step of its start fails for is down, and says why") {
    FailingProbe misconfigured(false);
    is_down(misconfigured, "not started");
    CHECK(!misconfigured.start());
    is_down(misconfigured, "this kernel has no such tracepoint", ProbeState::unsupported);

    FailingProbe unloaded(true);
    const auto started = unloaded.start();
    REQUIRE(!started);
    CHECK(started.error().code == EPERM);
    is_down(unloaded, std::string("load the BPF programs: ") + std::strerror(EPERM));

    EmptySkeleton::can_open = false;
    errno = ENOMEM;
    FailingProbe unopened(true);
    CHECK(!unopened.start());
    is_down(unopened, std::string("open the BPF programs: ") + std::strerror(ENOMEM));
    EmptySkeleton::can_open = true;
}

TEST_CASE("an attachment to no function is a reason to be down, and failures are counted") {
    AttachState state("probe");
    CHECK(state.health().detail == "not started");
    CHECK(state.health().state == ProbeState::failed);
    state.up(3, "attached by kprobes");
    CHECK(state.health().state == ProbeState::up);
    CHECK(state.health().attached_functions == 3);
    CHECK(state.health().attach_failures.empty());
    state.failed(Error{"no"});
    CHECK(state.health().is_up());
    CHECK(state.health().attach_failures.at("attach") == 1);
    state.down(Error{"no driver", EOPNOTSUPP});
    CHECK(state.health().state == ProbeState::unsupported);
    CHECK(state.health().detail == "no driver");
    CHECK(state.health().attached_functions == 0);
    state.down(Error{"no permission", EPERM});
    CHECK(state.health().state == ProbeState::failed);
}

TEST_CASE("an error is that the kernel lacks the thing, or a failure") {
    CHECK(state_after(fail_unsupported("no kprobes").value()) == ProbeState::unsupported);
    CHECK(state_after(Error{"a BPF program of an unknown kind", 524}) == ProbeState::unsupported);
    CHECK(state_after(Error{"step", EOPNOTSUPP}.in("outer")) == ProbeState::unsupported);
    for (const int code : {0, EPERM, EACCES, ENOENT, ENOMEM, EINVAL}) {
        INFO(code);
        CHECK(state_after(Error{"no", code}) == ProbeState::failed);
    }
}

TEST_CASE("a probe that attaches to libraries is up without any, unless its start failed") {
    AttachedLibraries libraries("probe", "none in use");
    CHECK(libraries.health().state == ProbeState::failed);
    libraries.started({});
    CHECK(libraries.health().state == ProbeState::up);
    CHECK(libraries.health().detail == "none in use");
    libraries.started(fail("no permission", EPERM));
    CHECK(libraries.health().state == ProbeState::failed);
    libraries.started(fail_unsupported("no uprobes"));
    CHECK(libraries.health().state == ProbeState::unsupported);
    CHECK(libraries.health().detail == "no uprobes");
}

TEST_CASE("a probe that is not made is disabled, and every probe has a state") {
    CHECK(health_of({}).size() == all_probes().size());
    for (const Health &health : health_of({})) {
        CHECK(health.state == ProbeState::disabled);
        CHECK(health.detail == "disabled by the configuration");
    }
    std::vector<std::unique_ptr<Probe>> probes;
    probes.push_back(std::make_unique<NamedProbe>(std::string(all_probes()[1]->name)));
    const auto all = health_of(probes);
    REQUIRE(all.size() == all_probes().size());
    CHECK(all[0].state == ProbeState::disabled);
    CHECK(all[1].name == all_probes()[1]->name);
    CHECK(all[1].state == ProbeState::up);
}

TEST_CASE("a process keeps its state and its series until it has ended") {
    Counted counted(10s);
    const ProcessKey key{7, 1};
    counted.start(key, "prog");
    counted.processes.of(key).state = 42;
    counted.count(counted.processes.of(key));
    counted.start(key, "late");  // its calls came first: it stays together
    CHECK(counted.processes.of(key).labels == series::LabelValues{"prog", "", "", ""});
    counted.go(key, 100s);
    counted.go(key, 200s);  // the first end counts
    CHECK(counted.processes.tidy(109s).empty());
    CHECK(counted.processes.of(key).state == 42);
    CHECK(counted.processes.tidy(110s) == std::vector<ProcessKey>{key});
    CHECK(counted.series() == 1);
    (void)counted.processes.tidy(159s);
    CHECK(counted.series() == 1);
    (void)counted.processes.tidy(160s);
    CHECK(counted.series() == 0);
    CHECK(counted.processes.of(key).state == 0);  // another one, that /proc does not know
    CHECK(counted.processes.of(key).labels == series::LabelValues{"unknown", "", "", ""});
}

TEST_CASE("a process that records describe has one entry for each of its names") {
    Counted counted;
    const auto own = static_cast<std::uint32_t>(::getpid());
    const auto started = processes::start_time(own);
    REQUIRE(started);
    const auto since = static_cast<std::uint64_t>(started->count());
    auto &before = counted.processes.of(own, identity_of("sh", since));
    auto &after = counted.processes.of(own, identity_of("prog", since));
    auto &gone = counted.processes.of(nobody, identity_of("prog", 5));
    auto &interrupt = counted.processes.of(0, process_identity{});
    CHECK(&counted.processes.of(own, identity_of("sh", since)) == &before);
    CHECK(&before != &after);
    CHECK(after.owner == gone.owner);
    CHECK(interrupt.labels == series::LabelValues{"interrupt", "", "", ""});
    for (const KnownProcess *process : {&before, &after, &gone, &interrupt}) {
        counted.count(*process);
    }
    CHECK(counted.series() == 3);
    counted.processes.scan(10s);
    CHECK(counted.processes.tidy(11s).empty());
    counted.processes.scan(20s);  // gone at two looks in a row
    CHECK(counted.processes.tidy(21s).size() == 1);
    (void)counted.processes.tidy(1h);
    CHECK(counted.series() == 3);  // another process still has its labels
    CHECK(&counted.processes.of(own, identity_of("prog", since)) == &after);
}

TEST_CASE("a process that changes its name keeps its script and its job") {
    Counted counted;
    process_details details{};
    constexpr char arguments[] = "python3\0train.py";
    std::memcpy(details.arguments.head, arguments, sizeof(arguments));
    details.arguments.head_bytes = sizeof(arguments);
    details.arguments.total = sizeof(arguments);
    const std::string scope = "docker-" + std::string(64, 'a') + ".scope";
    details.cgroup = cgroup_of({"slurmstepd.scope", "job_12", "step_0", scope});
    const auto labels_of = [&](std::string_view comm, const process_details *known) {
        return counted.processes.of(nobody, identity_of(comm, 5), known).labels;
    };
    using Labels = series::LabelValues;
    const std::string container(64, 'a');
    CHECK(labels_of("python3", &details) == Labels{"python3", "train.py", container, "12"});
    CHECK(labels_of("a_name", nullptr) == Labels{"a_name", "train.py", container, "12"});
    CHECK(labels_of("z_name", nullptr) == Labels{"z_name", "train.py", container, "12"});
    // The next program of the process, and another process.
    process_identity next = identity_of("python3", 5);
    next.execs = 1;
    CHECK(counted.processes.of(nobody, next).labels == Labels{"python3", "", "", ""});
    CHECK(counted.processes.of(nobody, identity_of("python3", 6)).labels ==
          Labels{"python3", "", "", ""});
}

TEST_CASE("records that are not of processes are left to the probe") {
    Counted counted;
    CHECK(!counted.processes.on_record({}));
    CHECK(!counted.processes.on_record(bytes_of(traced_record{1, 2, 3, PROCESS_STARTED})));
    traced_start_record started{};
    started.head.type = PROCESS_ENDED;
    CHECK(!counted.processes.on_record(bytes_of(started)));
}
