// With few privileges: it counts as exactly as root does, gives up what it has too much of, and
// says what it lacks.
#include <signal.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <sstream>

#include "exporter/base/fd.h"
#include "tests/harness/cuda_truth.h"
#include "tests/harness/exporter.h"

using namespace harness;

namespace {

using Words = std::vector<std::string>;

// Runs what follows as a user like any other, with these capabilities: "+bpf,+perfmon". The
// directories of a build may be closed to others: those who run programs there need
// dac_read_search.
Words as_nobody(const std::string &capabilities) {
    return {"setpriv",
            "--reuid=65534",
            "--regid=65534",
            "--clear-groups",
            "--inh-caps=-all," + capabilities,
            "--ambient-caps=-all," + capabilities};
}

const std::string three = "+bpf,+perfmon,+sys_ptrace";

std::string status_of(pid_t pid, const std::string &key) {
    std::istringstream lines(read_file("/proc/" + std::to_string(pid) + "/status"));
    for (std::string line; std::getline(lines, line);) {
        if (line.starts_with(key + ":")) {
            return line.substr(line.find_last_of('\t') + 1);
        }
    }
    FAIL("no " << key);
    return "";
}

// For each thread of the process.
Words statuses_of(pid_t pid, const std::string &key) {
    Words all;
    for (const auto &task :
         std::filesystem::directory_iterator("/proc/" + std::to_string(pid) + "/task")) {
        all.push_back(status_of(std::stoi(task.path().filename().string()), key));
    }
    return all;
}

std::string hexadecimal(std::initializer_list<unsigned> capabilities) {
    std::uint64_t bits = 0;
    for (const unsigned one : capabilities) {
        bits |= std::uint64_t{1} << one;
    }
    std::array<char, 17> text{};
    std::snprintf(text.data(), text.size(), "%016llx", static_cast<unsigned long long>(bits));
    return text.data();
}

// Numbers of linux/capability.h.
constexpr unsigned dac_override = 1;
constexpr unsigned dac_read_search = 2;
constexpr unsigned sys_ptrace = 19;
constexpr unsigned sys_admin = 21;
constexpr unsigned perfmon = 38;
constexpr unsigned bpf = 39;
constexpr unsigned checkpoint_restore = 40;

// Files that `nobody` may read: the exporter's and the configuration's directories are closed.
class OpenExporter {
public:
    explicit OpenExporter(const std::string &capabilities, const std::string &config) {
        REQUIRE(::chmod(directory_.path().c_str(), 0755) == 0);
        std::filesystem::copy_file(exporter_binary(), directory_ / "gpusnoop_exporter");
        write_file(directory_ / "config.yaml", config);
        auto command = as_nobody(capabilities);
        command.insert(command.end(), {directory_ / "gpusnoop_exporter",
                                       "--config.file=" + (directory_ / "config.yaml").string(),
                                       "--web.listen-address=127.0.0.1:0"});
        process_ = std::make_unique<Process>(std::move(command));
    }
    [[nodiscard]] Process &process() { return *process_; }
    [[nodiscard]] std::filesystem::path binary() const { return directory_ / "gpusnoop_exporter"; }

private:
    TemporaryDirectory directory_;
    std::unique_ptr<Process> process_;
};

std::string in_mode(const std::string &mode) {
    return "cuda: {attach: " + mode + "}\nfunctions: {attach: " + mode + "}\n";
}

// Runs the workload of four threads as root while a page is served on `exporter`, and compares.
void check_counts_exactly(const Exporter &exporter, const std::string &comm) {
    const Process holder({standin("workload"), "--iterations", "0", "--hold", "--name", "holder"});
    exporter.wait_until_attached_to(standin("12/libcudart.so.12"));
    exporter.wait_until_attached_to(standin("driver/libcuda.so.1"));
    const TemporaryDirectory truth_directory;
    Process workload({standin("workload"), "--threads", "4", "--iterations", "1000", "--failures",
                      "--leak", "1000", "--name", comm, "--hold"},
                     {{"STANDIN_TRUTH_DIR", truth_directory.path().string()}});
    workload.wait_for_output("holding");
    const auto truths = truth::read_truth(truth_directory.path());
    const auto truth = std::ranges::find(truths, comm, &truth::TruthSnapshot::comm);
    REQUIRE(truth != truths.end());
    REQUIRE(truth->launches > 0);
    const Page page = exporter.wait_for("gpusnoop_cuda_kernel_launches_total", {{"comm", comm}},
                                        static_cast<double>(truth->launches));
    check_counters(page, *truth, comm);
    check_outstanding(page, *truth);
    check_account_at_rest(exporter);
}

// The service manager's end of NOTIFY_SOCKET.
class Manager {
public:
    Manager() {
        sockaddr_un address{};
        address.sun_family = AF_UNIX;
        path().copy(address.sun_path, sizeof(address.sun_path) - 1);
        REQUIRE(::bind(socket_.get(), reinterpret_cast<const sockaddr *>(&address),
                       sizeof(address)) == 0);
        const timeval limit{20, 0};
        ::setsockopt(socket_.get(), SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
    }
    [[nodiscard]] std::string path() const { return (directory_ / "notify").string(); }

    // The next message that is not only a sign of life.
    [[nodiscard]] std::string next() {
        while (true) {
            std::array<char, 4096> datagram{};
            const ssize_t got = ::recv(socket_.get(), datagram.data(), datagram.size(), 0);
            REQUIRE(got > 0);
            const std::string text(datagram.data(), static_cast<std::size_t>(got));
            if (!text.starts_with("WATCHDOG=1")) {
                return text;
            }
            signs_of_life++;
            last_status_ = text.substr(text.find('\n') + 1);
        }
    }
    void wait_for_life() {
        std::array<char, 4096> datagram{};
        const ssize_t got = ::recv(socket_.get(), datagram.data(), datagram.size(), 0);
        REQUIRE(got > 0);
        REQUIRE(std::string(datagram.data(), static_cast<std::size_t>(got))
                    .starts_with("WATCHDOG=1\nSTATUS="));
        signs_of_life++;
    }
    int signs_of_life = 0;

private:
    TemporaryDirectory directory_;
    gpusnoop::Fd socket_{::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0)};
    std::string last_status_;
};

Finished doctor(Words through, const std::filesystem::path &binary, Words more = {}) {
    through.insert(through.end(), {binary.string(), "doctor", "--web.listen-address=127.0.0.1:0"});
    through.insert(through.end(), more.begin(), more.end());
    return run(std::move(through));
}

std::string verdict_of(const nlohmann::json &report, const std::string &check) {
    for (const auto &one : report["checks"]) {
        if (one["check"] == check) {
            return one["verdict"];
        }
    }
    FAIL("no check " << check);
    return "";
}

}  // namespace

TEST_CASE("a user with a few capabilities counts exactly, in session and multi mode",
          "[e2e][core]") {
    require_bpf();
    const std::string mode = GENERATE("session", "multi");
    CAPTURE(mode);
    // dac_read_search for the directory of the build and of the configuration alone.
    Exporter exporter(in_mode(mode), as_nobody(three + ",+dac_read_search"));
    CHECK(status_of(exporter.process().pid(), "CapEff") ==
          hexadecimal({bpf, perfmon, sys_ptrace, dac_read_search}));
    check_counts_exactly(exporter, "few_" + mode);
    exporter.process().signal(SIGHUP);
    exporter.process().wait_for_output("msg=\"configuration reloaded\"");
    exporter.process().signal(SIGTERM);
    CHECK(exporter.process().wait() == 0);
}

TEST_CASE("as the service runs it, it counts exactly", "[e2e]") {
    require_bpf();
    const std::string source = GPUSNOOP_SOURCE_DIR;
    auto service = as_nobody(three + ",+dac_read_search,+checkpoint_restore");
    service.insert(service.end(), {"python3", source + "/tests/packaging/with_unit_limits.py",
                                   source + "/packaging/gpusnoop_exporter.service"});
    // Of scripts/sanitized.sh: a search for leaks is made by ptrace, which the filter forbids.
    if (const char *sanitizer = std::getenv("ASAN_OPTIONS")) {
        service.insert(service.end(),
                       {"env", "ASAN_OPTIONS=" + std::string(sanitizer) + ":detect_leaks=0"});
    }
    Exporter exporter(in_mode("auto"), service);
    constexpr std::string_view filtered = "2";
    CHECK(status_of(exporter.process().pid(), "Seccomp") == filtered);
    CHECK(exporter.log().find("level=WARN") == std::string::npos);
    check_counts_exactly(exporter, "service");
    exporter.process().signal(SIGTERM);
    CHECK(exporter.process().wait() == 0);
}

TEST_CASE("where tasks are limited to too few it ends and says so", "[e2e]") {
    require_bpf();
    // Of a user that may have no other: the server's threads are begun one after the other, and the
    // one that serves the clients is the last.
    for (const std::string most : {"4", "8", "10", "12"}) {
        CAPTURE(most);
        auto limited = as_nobody(three + ",+dac_read_search");
        limited.insert(limited.end(), {"prlimit", "--nproc=" + most});
        const TemporaryDirectory directory;
        write_file(directory / "config.yaml", in_mode("auto"));
        limited.insert(limited.end(),
                       {exporter_binary(), "--config.file=" + (directory / "config.yaml").string(),
                        "--web.listen-address=127.0.0.1:0"});
        const Finished finished = run(limited);
        CAPTURE(finished.output);
        CHECK(finished.code == 1);
        CHECK(finished.output.find("tasks") != std::string::npos);
    }
}

TEST_CASE("started as root it gives up what it does not use, in all of its threads", "[e2e]") {
    require_bpf();
    Exporter exporter(in_mode("auto"));
    const auto pid = exporter.process().pid();
    const auto kept = hexadecimal({bpf, perfmon, sys_ptrace, dac_read_search, checkpoint_restore});
    for (const std::string set : {"CapPrm", "CapEff", "CapBnd"}) {
        CAPTURE(set);
        const auto all = statuses_of(pid, set);
        CHECK(all.size() > 3);
        CHECK(std::ranges::all_of(all, [&](const auto &one) { return one == kept; }));
    }
    CHECK(status_of(pid, "CapInh") == hexadecimal({}));
    CHECK(status_of(pid, "CapAmb") == hexadecimal({}));
    CHECK(status_of(pid, "NoNewPrivs") == "1");
    const auto filtered = statuses_of(pid, "Seccomp");
    CHECK(std::ranges::all_of(filtered, [](const auto &one) { return one == "2"; }));
    CHECK(exporter.log().find("msg=\"capabilities\" kept=\"CAP_BPF, CAP_PERFMON, CAP_SYS_PTRACE, "
                              "CAP_DAC_READ_SEARCH and CAP_CHECKPOINT_RESTORE\"") !=
          std::string::npos);
    check_counts_exactly(exporter, "root_less");
    exporter.process().signal(SIGHUP);
    exporter.process().wait_for_output("msg=\"configuration reloaded\"");
}

TEST_CASE("what is kept is what is configured", "[e2e]") {
    require_bpf();
    const auto before = status_of(::getpid(), "CapPrm");
    Exporter all("capabilities: {keep: all}\n");
    CHECK(status_of(all.process().pid(), "CapPrm") == before);
    CHECK(status_of(all.process().pid(), "Seccomp") == status_of(::getpid(), "Seccomp"));
    Exporter perf("cuda: {attach: perf, libraries: [\"libcudart-nowhere.so\"]}\n");
    CHECK(status_of(perf.process().pid(), "CapPrm") ==
          hexadecimal({bpf, perfmon, sys_ptrace, dac_read_search, checkpoint_restore, sys_admin}));
    Exporter sink("sinks: [{type: unix, path: /run/gpusnoop-nobody.sock}]\n");
    CHECK(
        status_of(sink.process().pid(), "CapPrm") ==
        hexadecimal({bpf, perfmon, sys_ptrace, dac_read_search, checkpoint_restore, dac_override}));
}

TEST_CASE("what is missing is named", "[e2e][core]") {
    require_bpf();
    OpenExporter no_perfmon("+bpf", in_mode("auto"));
    CHECK(no_perfmon.process().wait() != 0);
    CHECK(no_perfmon.process().output().find("CAP_PERFMON is missing") != std::string::npos);
    OpenExporter no_bpf("+perfmon", in_mode("auto"));
    CHECK(no_bpf.process().wait() != 0);
    CHECK(no_bpf.process().output().find("CAP_BPF is missing") != std::string::npos);

    const Process holder({standin("workload"), "--iterations", "0", "--hold", "--name", "holder"});
    OpenExporter no_admin(three, in_mode("perf"));
    no_admin.process().wait_for_output("CAP_SYS_ADMIN is missing");
    CHECK(no_admin.process().output().find("CAP_DAC_READ_SEARCH costs=\"libraries below") !=
          std::string::npos);
}

TEST_CASE("the service manager hears of the start, of life, of reloads and of the end", "[e2e]") {
    require_bpf();
    Manager manager;
    Exporter exporter("", {"env", "NOTIFY_SOCKET=" + manager.path(), "WATCHDOG_USEC=300000"});
    CHECK(manager.next().starts_with("READY=1\nSTATUS=1 of 1 probes up, attached to "));
    while (manager.signs_of_life < 5) {
        manager.wait_for_life();
    }
    exporter.process().signal(SIGHUP);
    const std::string reloading = manager.next();
    CHECK(reloading.starts_with("RELOADING=1\nMONOTONIC_USEC="));
    CHECK(manager.next().starts_with("READY=1\nSTATUS=1 of 1 probes up"));
    exporter.configure("web: {nonsense: 1}\n");
    exporter.process().signal(SIGHUP);
    CHECK(manager.next().starts_with("RELOADING=1\n"));
    CHECK(manager.next().ends_with("; the last reload failed"));
    exporter.process().signal(SIGTERM);
    CHECK(manager.next() == "STOPPING=1\nSTATUS=stopping");
    CHECK(exporter.process().wait() == 0);
}

TEST_CASE("a service manager that is gone is no reason to stop", "[e2e]") {
    require_bpf();
    Exporter exporter("", {"env", "NOTIFY_SOCKET=/nowhere/notify"});
    CHECK(exporter.log().find("cannot notify systemd") != std::string::npos);
    CHECK(http(exporter.port(), "/-/ready").status == 200);
}

TEST_CASE("doctor says what root can do here, as text and as JSON", "[e2e][core]") {
    require_bpf();
    const Process holder({standin("workload"), "--iterations", "0", "--hold", "--name", "holder"});
    eventually("the workload to map the library", [&] {
        return read_file("/proc/" + std::to_string(holder.pid()) + "/maps").find("libcudart") !=
               std::string::npos;
    });
    const Finished finished = doctor({}, exporter_binary(), {"--format=json"});
    INFO(finished.output);
    const auto report = nlohmann::json::parse(finished.output);
    for (const std::string check : {"config", "btf", "ring_buffer", "CAP_BPF", "CAP_PERFMON",
                                    "processes", "mapping_events", "cuda_libraries", "listen"}) {
        CHECK(verdict_of(report, check) == "ok");
    }
    CHECK(finished.output.find("libcudart.so.12 in ") != std::string::npos);
    CHECK(finished.code == (report["verdict"] == "ok" ? 0 : 1));
    CHECK(report["verdict"] != "fail");

    const Finished text = doctor({}, exporter_binary());
    CHECK(text.code == finished.code);
    for (const auto &one : report["checks"]) {
        const std::string check = one["check"];
        CHECK(text.output.find("  " + check) != std::string::npos);
    }
}

TEST_CASE("doctor tells a user without privileges what is missing", "[e2e]") {
    const TemporaryDirectory directory;
    REQUIRE(::chmod(directory.path().c_str(), 0755) == 0);
    const auto binary = directory / "gpusnoop_exporter";
    std::filesystem::copy_file(exporter_binary(), binary);
    const Words nobody = ::geteuid() == 0 ? as_nobody("-bpf") : Words{};
    const Finished finished = doctor(nobody, binary, {"--format=json"});
    INFO(finished.output);
    CHECK(finished.code == 2);
    const auto report = nlohmann::json::parse(finished.output);
    CHECK(report["verdict"] == "fail");
    for (const std::string check :
         {"CAP_BPF", "CAP_PERFMON", "ring_buffer", "attach", "processes"}) {
        CHECK(verdict_of(report, check) == "fail");
    }
    for (const std::string check : {"CAP_SYS_PTRACE", "CAP_DAC_READ_SEARCH", "mapping_events"}) {
        CHECK(verdict_of(report, check) == "warn");
    }
    for (const auto &one : report["checks"]) {
        CAPTURE(one);
        CHECK((one["verdict"] == "ok" || !one["costs"].get<std::string>().empty()));
    }
    CHECK(doctor(nobody, binary).output.find("The exporter cannot work like this") !=
          std::string::npos);
}

TEST_CASE("doctor finds a busy port and a wrong configuration", "[e2e]") {
    require_bpf();
    const TemporaryDirectory directory;
    write_file(directory / "config.yaml", "cuda: {atach: perf}\n");
    const Finished wrong =
        doctor({}, exporter_binary(), {"--config.file=" + (directory / "config.yaml").string()});
    INFO(wrong.output);
    CHECK(wrong.code == 2);
    CHECK(wrong.output.find("cuda.atach: unknown key") != std::string::npos);

    const Exporter exporter;
    const Finished busy =
        run({exporter_binary(), "doctor",
             "--web.listen-address=127.0.0.1:" + std::to_string(exporter.port())});
    INFO(busy.output);
    CHECK(busy.code == 2);
    CHECK(busy.output.find("address already in use") != std::string::npos);
    const std::size_t remedies = busy.output.find("\nWhat to do:\n");
    REQUIRE(remedies != std::string::npos);
    CHECK(busy.output.find("\n  listen ", remedies) != std::string::npos);
}
