// Who made the calls, and when they end.
#include "exporter/probes/frame/processes/process_identity.h"

#include <unistd.h>

#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <initializer_list>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "exporter/processes/proc.h"
#include "tests/harness/machine/directory.h"
#include "tests/unit/child_process.h"
#include "tests/unit/probes/driver_records.h"

using namespace gpusnoop;
using namespace gpusnoop::probes;
using namespace std::chrono_literals;
using test::ChildProcess;

namespace {

using ProcessIdentityKeys = std::vector<ProcessKey>;

template <std::size_t N>
void fill(char (&to)[N], std::string_view text) {
    REQUIRE(text.size() <= N);
    std::memcpy(to, text.data(), text.size());
}

// A child that runs, and when it started.
struct Running {
    ChildProcess child{[](const ChildProcess::Tell &tell) { tell({}); }};
    std::chrono::nanoseconds started = processes::start_time(child.tgid()).value_or(-1ns);
    ProcessKey key{child.tgid(), 7};
};

}  // namespace

TEST_CASE("a process is what its record says") {
    const std::string id(64, 'a');
    process_identity record{};
    record.start_boottime_ns = 123'456'789;
    record.ppid = 41;
    fill(record.comm, "python3");
    process_details details{};
    const std::string scope = "docker-" + id + ".scope";
    details.cgroup = cgroup_of({"system.slice", scope});
    ProcessIdentity identity;
    identity.key = {42, 7};
    identity.exe = "/usr/bin/python3";
    take(identity, record, &details);
    CHECK(identity.key == ProcessKey{42, 7});
    CHECK(identity.started == 123'456'789ns);
    CHECK(identity.ppid == 41);
    CHECK(identity.comm == "python3");
    CHECK(identity.container == id);
    CHECK(identity.pod_uid.empty());
    CHECK(identity.exe == "/usr/bin/python3");  // the record does not say it
    CHECK(identity.script.empty());

    const process_details none{};
    take(identity, process_identity{}, &none);
    CHECK(identity.started == 0ns);
    CHECK(identity.comm.empty());
    CHECK(identity.container.empty());
}

namespace {

// As the BPF programs read them.
process_details details_of(const std::string &arguments) {
    process_details details{};
    process_arguments &to = details.arguments;
    to.total = static_cast<std::uint32_t>(arguments.size());
    to.head_bytes = static_cast<std::uint16_t>(std::min(arguments.size(), sizeof(to.head)));
    std::memcpy(to.head, arguments.data(), to.head_bytes);
    if (arguments.size() > sizeof(to.head)) {
        const std::size_t end =
            std::min(arguments.find('\0', sizeof(to.head)) + 1, arguments.size());
        to.rest_at = static_cast<std::uint32_t>(end - PROCESS_ARGUMENTS_TAIL);
        to.rest_bytes =
            static_cast<std::uint16_t>(std::min(arguments.size() - to.rest_at, sizeof(to.rest)));
        std::memcpy(to.rest, arguments.data() + to.rest_at, to.rest_bytes);
    }
    return details;
}

std::string words(std::initializer_list<std::string> arguments) {
    std::string bytes;
    for (const std::string &argument : arguments) {
        bytes += argument + '\0';
    }
    return bytes;
}

std::string script_in(const std::string &arguments, std::string_view comm = "python3") {
    process_identity record{};
    fill(record.comm, comm);
    const process_details details = details_of(arguments);
    ProcessIdentity identity;
    take(identity, record, &details);
    return identity.script;
}

}  // namespace

TEST_CASE("a process's script is in its record, however long its path is") {
    CHECK(script_in("") == "");
    CHECK(script_in(words({"python3", "-u", "/src/train.py", "--epochs", "3"})) == "train.py");
    for (const std::size_t length :
         {100UL, 200UL, 240UL, 255UL, 256UL, 257UL, 300UL, 511UL, 512UL, 1'000UL, 4'000UL}) {
        std::string path(length, '/');
        for (std::size_t i = 1; i < length; i++) {
            path[i] = i % 100 == 0 ? '/' : 'd';
        }
        INFO(length);
        CHECK(script_in(words({"python3", path + "/train.py", "--epochs", "3"})) == "train.py");
        CHECK(script_in(words({"python3", "-X", path, "a.py"})) == "a.py");
        // A name is cut as every label is.
        CHECK(script_in(words({"python3", std::string(length, 'n')})) ==
              std::string(std::min<std::size_t>(length, 128), 'n'));
        CHECK(script_in(words({"python3", "-m", std::string(length, 'm')})) ==
              std::string(std::min<std::size_t>(length, 128), 'm'));
    }
    CHECK(script_in(words({"python3", "a\xff\nb.py"})) ==
          "a\xef\xbf\xbd\xef\xbf\xbd"
          "b.py");
    CHECK(script_in(words({"worker", "train.py"}), "bash") == "train.py");
    CHECK(script_in(words({"worker", "train.py"}), "worker") == "");
    CHECK(script_in("python3") == "");  // it has overwritten its arguments
    CHECK(script_in(std::string("python3\0x.py", 12)) == "x.py");
    // Numbers that no program of ours sends.
    process_details wrong{};
    std::memset(&wrong, 0xff, sizeof(wrong));
    ProcessIdentity identity;
    take(identity, process_identity{}, &wrong);
    CHECK(identity.script.empty());
}

TEST_CASE("a process's job, step and unit are in its record") {
    process_identity record{};
    record.uid = 1'000;
    process_details details{};
    details.cgroup = cgroup_of({"slurmstepd.scope", "job_12", "step_batch", "user", "task_0"});
    ProcessIdentity identity;
    take(identity, record, &details);
    CHECK(identity.slurm_job_id == "12");
    CHECK(identity.slurm_step_id == "batch");
    CHECK(identity.systemd_unit == "slurmstepd.scope");
    CHECK(identity.uid == 1'000);

    const std::string scope = "docker-" + std::string(64, 'a') + ".scope";
    details.cgroup = cgroup_of({"system.slice", scope});
    take(identity, record, &details);
    CHECK(identity.slurm_job_id.empty());
    CHECK(identity.slurm_step_id.empty());
    CHECK(identity.systemd_unit.empty());
    CHECK(identity.container == std::string(64, 'a'));
}

TEST_CASE("a container's own cgroups, however deep, are the container's") {
    const std::string scope = "cri-containerd-" + std::string(64, 'a') + ".scope";
    const std::string inner = "docker-" + std::string(64, 'b') + ".scope";
    const std::string uid = "0f9a1b2c_3d4e_5f60_7182_93a4b5c6d7e8";
    const std::string pod = "kubepods-burstable-pod" + uid + ".slice";
    process_details details{};
    details.cgroup =
        cgroup_of({"kubepods.slice", "kubepods-burstable.slice", pod, scope, "ray-node", "user",
                   "workers", "system.slice", inner, "init.scope"});
    ProcessIdentity identity;
    take(identity, process_identity{}, &details);
    CHECK(identity.container == std::string(64, 'a'));
    CHECK(identity.pod_uid == "0f9a1b2c-3d4e-5f60-7182-93a4b5c6d7e8");
    CHECK(identity.systemd_unit.empty());

    // The names above are missing, so a user can have made all of these.
    details.cgroup.is_whole = 0;
    take(identity, process_identity{}, &details);
    CHECK(identity.container.empty());
    CHECK(identity.pod_uid.empty());
}

TEST_CASE("a user's own directories have no job's or container's name") {
    const std::string scope = "docker-" + std::string(64, 'b') + ".scope";
    process_details details{};
    details.cgroup = cgroup_of(
        {"user.slice", "user@1000.service", "slurmstepd.scope", "job_4242", "step_0", scope});
    ProcessIdentity identity;
    take(identity, process_identity{}, &details);
    CHECK(identity.slurm_job_id == "4242");
    CHECK(identity.container == std::string(64, 'b'));
    details.cgroup.not_root = 0b1'1111;  // all but user.slice
    take(identity, process_identity{}, &details);
    CHECK(identity.slurm_job_id.empty());
    CHECK(identity.container.empty());
    details.cgroup.not_root = 0b1;  // a container's own
    take(identity, process_identity{}, &details);
    CHECK(identity.slurm_job_id == "4242");
    CHECK(identity.container == std::string(64, 'b'));
}

TEST_CASE("the environment has the number of a job whose cgroup has a SLUID") {
    process_details details{};
    const auto job_of = [&](std::string_view variable) {
        std::memset(details.slurm_job_id, 0, sizeof(details.slurm_job_id));
        fill(details.slurm_job_id, variable);
        ProcessIdentity identity;
        take(identity, process_identity{}, &details);
        return identity.slurm_job_id + " " + identity.slurm_step_id;
    };
    details.cgroup = cgroup_of({"slurmstepd.scope", "s7QX2M9TABCD00", "step_0", "user", "task_0"});
    CHECK(job_of("SLURM_JOB_ID=4711") == "4711 0");
    CHECK(job_of("") == "s7QX2M9TABCD00 0");
    CHECK(job_of("SLURM_JOB_ID=my job") == "s7QX2M9TABCD00 0");
    // The cgroup is right, as the user cannot change it.
    details.cgroup = cgroup_of({"slurmstepd.scope", "job_12", "step_0"});
    CHECK(job_of("SLURM_JOB_ID=4711") == "12 0");
    details.cgroup = cgroup_of({"user.slice"});
    CHECK(job_of("SLURM_JOB_ID=4711") == " ");
}

TEST_CASE("a path that no program of ours sends is none") {
    process_details wrong{};
    std::memset(&wrong, 0xff, sizeof(wrong));
    ProcessIdentity identity;
    take(identity, process_identity{}, &wrong);
    CHECK(identity.container.empty());
    CHECK(identity.slurm_job_id.empty());
}

TEST_CASE("texts of a record end at their NUL or their size, and are valid") {
    process_identity record{};
    std::memset(record.comm, 'x', sizeof(record.comm));
    ProcessIdentity identity;
    take(identity, record);
    CHECK(identity.comm == std::string(PROCESS_COMM_BYTES, 'x'));

    fill(record.comm, std::string_view("a\xff\n\0rest", 8));
    take(identity, record);
    CHECK(identity.comm == "a\xef\xbf\xbd\xef\xbf\xbd");
}

TEST_CASE("what /proc says fills in what the record left open") {
    Running running;
    ProcessIdentity identity;
    identity.key = running.key;
    REQUIRE(look_up(identity));
    CHECK(identity.started == running.started);
    CHECK(identity.ppid == static_cast<std::uint32_t>(::getpid()));
    CHECK(identity.uid == ::getuid());
    CHECK(identity.comm == processes::name_of(running.child.tgid()));
    CHECK(identity.exe == processes::executable_path(running.child.tgid()));

    ProcessIdentity recorded;
    recorded.key = running.key;
    recorded.started = running.started;
    recorded.comm = "recorded";
    REQUIRE(look_up(recorded));
    CHECK(recorded.comm == "recorded");  // as it was at its first call
    CHECK_FALSE(recorded.uid);
    CHECK(recorded.exe == identity.exe);

    // Another process has its number now.
    ProcessIdentity earlier;
    earlier.key = running.key;
    earlier.started = running.started - 1s;
    CHECK(!look_up(earlier));
    CHECK(earlier.comm == "unknown");
    CHECK(earlier.exe == "unknown");

    running.child.end();
    ProcessIdentity late;
    late.key = running.key;
    CHECK(!look_up(late));
    CHECK(late.comm == "unknown");
    CHECK(late.started == 0ns);
}

TEST_CASE("/proc has the arguments that the record could not have") {
    const harness::TemporaryDirectory directory;
    const std::string script = (directory / "stops.sh").string();
    std::ofstream(script) << "kill -STOP $$\n";
    const ChildProcess child([&](const ChildProcess::Tell &tell) {
        tell({});
        ::execl("/bin/sh", "sh", script.c_str(), nullptr);
        ::_exit(1);
    });
    // It has its name before its arguments, and then stops itself.
    const std::string status = "/proc/" + std::to_string(child.tgid()) + "/status";
    const auto has_stopped = [&] {
        std::string line;
        for (std::ifstream file(status); std::getline(file, line);) {
            if (line.starts_with("State:")) {
                return line.find("T (stopped)") != std::string::npos;
            }
        }
        return false;
    };
    const auto end = std::chrono::steady_clock::now() + 10s;
    while (!has_stopped() && std::chrono::steady_clock::now() < end) {
        std::this_thread::sleep_for(1ms);
    }
    REQUIRE(has_stopped());

    ProcessIdentity identity;
    identity.key = {child.tgid(), 7};
    REQUIRE(look_up(identity));
    CHECK(identity.script == "stops.sh");

    process_identity record{};
    fill(record.comm, "sh");
    record.start_boottime_ns = static_cast<std::uint64_t>(identity.started.count());
    process_details details{};
    ProcessIdentity recorded;
    recorded.key = identity.key;
    take(recorded, record, &details);
    CHECK(recorded.script.empty());
    REQUIRE(look_up(recorded));
    CHECK(recorded.script == "stops.sh");

    // Arguments that it had without a script, and another program than at the first call.
    details.arguments.total = details.arguments.head_bytes = 3;
    std::memcpy(details.arguments.head, "sh", 3);
    take(recorded, record, &details);
    REQUIRE(look_up(recorded));
    CHECK(recorded.script.empty());
    fill(record.comm, "former");
    details = {};
    take(recorded, record, &details);
    REQUIRE(look_up(recorded));
    CHECK(recorded.script.empty());
}

TEST_CASE("a process is taken for ended at the second look that it is gone at") {
    Running one;
    Running other;
    EndedProcesses ended;
    const std::vector running = {std::pair(one.key, one.started),
                                 std::pair(other.key, other.started)};
    CHECK(ended.look(running).empty());
    CHECK(ended.look(running).empty());
    one.child.end();
    CHECK(ended.look(running).empty());
    CHECK(ended.look(running) == ProcessIdentityKeys{one.key});
    other.child.end();
    CHECK(ended.look({std::pair(other.key, other.started)}).empty());
    CHECK(ended.look({std::pair(other.key, other.started)}) == ProcessIdentityKeys{other.key});
}

TEST_CASE("a process whose number another one has is gone") {
    Running one;
    EndedProcesses ended;
    const std::vector running = {std::pair(one.key, one.started),
                                 std::pair(ProcessKey{one.key.tgid, 1}, one.started - 1s),
                                 std::pair(ProcessKey{one.key.tgid, 2}, one.started + 1s)};
    CHECK(ended.look(running).empty());
    CHECK(ended.look(running) == ProcessIdentityKeys{{one.key.tgid, 1}, {one.key.tgid, 2}});
}

TEST_CASE("two looks in a row, and of one process") {
    Running one;
    one.child.end();
    const std::vector gone = {std::pair(one.key, one.started)};
    EndedProcesses ended;
    CHECK(ended.look(gone).empty());
    CHECK(ended.look({}).empty());  // its exit was recorded in the meantime
    CHECK(ended.look(gone).empty());
    const ProcessKey next{one.key.tgid, one.key.since_ns + 1};
    CHECK(ended.look({std::pair(next, one.started)}).empty());
    CHECK(ended.look({std::pair(next, one.started)}) == ProcessIdentityKeys{next});
}
