// What keeps the exporter from starting is said in one sentence, with an exit code that is not 0.
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <filesystem>

#include "tests/harness/exporter.h"
#include "tests/harness/probe_state.h"

using namespace harness;

namespace {

// What the program writes to stderr before it ends.
Finished start(const std::vector<std::string> &arguments,
               const std::vector<std::string> &through = {},
               const std::string &binary = exporter_binary()) {
    std::vector<std::string> command = through;
    command.insert(command.end(), {"sh", "-c", "exec \"$@\" >/dev/null", "sh", binary});
    command.insert(command.end(), arguments.begin(), arguments.end());
    return run(command);
}

void check_one_sentence(const Finished &finished, const std::string &wanted) {
    INFO(finished.output);
    CHECK(finished.code != 0);
    CHECK(finished.code < 126);  // neither a signal's nor the shell's
    CHECK(std::ranges::count(finished.output, '\n') == 1);
    CHECK(finished.output.find(wanted) != std::string::npos);
}

const std::string no_address = "--web.listen-address=127.0.0.1:0";

std::string limit_sentence(int limit) {
    return "the limit of open files is " + std::to_string(limit) +
           ", raise it (LimitNOFILE= of a unit, ulimit -n)";
}

}  // namespace

TEST_CASE("a configuration that cannot be read is one sentence", "[e2e]") {
    const TemporaryDirectory directory;
    const auto with = [](const std::filesystem::path &file) {
        return start({"--config.file=" + file.string()});
    };
    check_one_sentence(with(directory / "none.yaml"),
                       (directory / "none.yaml").string() + ": No such file or directory");
    check_one_sentence(with(directory.path()), directory.path().string() + ": Is a directory");

    const auto file = directory / "config.yaml";
    write_file(file, "web: [\n");
    check_one_sentence(with(file), file.string() + ":2:1: not valid YAML");
    write_file(file, "cuda:\n  enabled: true\n  atach: perf\n");
    check_one_sentence(with(file), file.string() + ":3:3: cuda.atach: unknown key");
    check_one_sentence(with(file), "did you mean \"attach\"?");
    write_file(file, "cuda:\n  attach: always\n");
    check_one_sentence(with(file), file.string() + ":2:11: cuda.attach: expected auto");
    write_file(file, std::string("\x7f") + "ELF\x02\x01\x01");
    check_one_sentence(with(file), file.string() + ":1:1: not a text file");
    write_file(file, std::string(2'000'000, '#'));
    check_one_sentence(with(file), "larger than 1 MiB");
}

TEST_CASE("check-config tells right from wrong", "[e2e][core]") {
    const TemporaryDirectory directory;
    const auto file = directory / "config.yaml";
    const auto check = [&] {
        return run({exporter_binary(), "check-config", "--config.file=" + file.string()});
    };
    write_file(file, "cuda:\n  attach: perf\n");
    CHECK(check().code == 0);
    CHECK(check().output == file.string() + ": ok\n");
    CHECK(run({exporter_binary(), "check-config",
               "--config.file=" + std::string(GPUSNOOP_SOURCE_DIR) + "/config.yaml"})
              .code == 0);
    write_file(file, "cuda:\n  attach: never\nlog:\n  levle: info\n");
    const Finished wrong = check();
    INFO(wrong.output);
    CHECK(wrong.code == 1);
    // All of what is wrong, each in its line.
    CHECK(std::ranges::count(wrong.output, '\n') == 2);
    CHECK(wrong.output.find(":2:11: cuda.attach: ") != std::string::npos);
    CHECK(wrong.output.find(":4:3: log.levle: ") != std::string::npos);
    std::filesystem::remove(file);
    CHECK(check().code == 1);
}

TEST_CASE("a configuration that never ends is one sentence, and one out of a pipe is read",
          "[e2e][beside]") {
    const TemporaryDirectory directory;
    const auto fifo = directory / "fifo";
    REQUIRE(::mkfifo(fifo.c_str(), 0600) == 0);
    const std::string nothing = fifo.string() + ": nothing came out of the file within 2 s";
    check_one_sentence(start({"check-config", "--config.file=" + fifo.string()}), nothing);
    check_one_sentence(start({"check-config", "--web.config.file=" + fifo.string()}), nothing);
    check_one_sentence(start({no_address, "--config.file=" + fifo.string()}), nothing);
    if (const std::string messages = "/dev/kmsg"; ::access(messages.c_str(), R_OK) == 0) {
        const Finished finished = start({"check-config", "--config.file=" + messages});
        INFO(finished.output);
        CHECK(finished.code == 1);
        CHECK(finished.output.starts_with(messages + ":"));
    }
    const Finished piped = run({"bash", "-c",
                                "\"$0\" check-config --config.file=<(sleep 0.3; echo 'log: "
                                "{level: warn}') --web.config.file=<(echo)",
                                exporter_binary()});
    INFO(piped.output);
    CHECK(piped.code == 0);
}

TEST_CASE("a name that a terminal would obey is made printable", "[e2e]") {
    const TemporaryDirectory directory;
    const std::string name = "bad\x1B[31m\n\xC2\x9B.yaml";
    const std::string shown = "bad\xEF\xBF\xBD[31m\xEF\xBF\xBD\xEF\xBF\xBD.yaml";
    const auto file = directory / name;
    check_one_sentence(start({"check-config", "--config.file=" + file.string()}),
                       shown + ": No such file or directory");
    check_one_sentence(start({"check-config", "--web.config.file=" + file.string()}),
                       shown + ": No such file or directory");
    write_file(file, "web: {x: 1}");
    check_one_sentence(start({"check-config", "--config.file=" + file.string()}),
                       shown + ":1:7: web.x: unknown key");
    write_file(file, "");
    const Finished good =
        run({exporter_binary(), "check-config", "--config.file=" + file.string()});
    CHECK(good.output == (directory / shown).string() + ": ok\n");
    const Finished flag = start({"--\x1B[31m"});
    CHECK(flag.output.find('\x1B') == std::string::npos);
}

TEST_CASE("addresses that are given twice are one sentence", "[e2e]") {
    check_one_sentence(start({"--web.listen-address=:1", "--web.listen-address=127.0.0.1:1,:1"}),
                       "--web.listen-address: \":1\" is given twice");
}

TEST_CASE("a limit of open files that is too low is named", "[e2e][beside]") {
    require_bpf();
    const std::vector<std::vector<std::string>> commands = {
        {no_address}, {"profile", "--duration=1s"}, {"trace", "cuda", "--duration=1s"}};
    for (const auto &command : commands) {
        for (const int limit : {40, 58, 64, 127}) {
            const Finished finished =
                start(command, {"prlimit", "--nofile=" + std::to_string(limit)});
            check_one_sentence(finished, "msg=\"at least 128 open files are needed: " +
                                             limit_sentence(limit) + "\"\n");
        }
    }
}

TEST_CASE("a limit of open files that is too low ends no exporter by a signal", "[e2e][beside]") {
    require_bpf();
    const TemporaryDirectory directory;
    write_file(directory / "config.yaml", beside_others());
    for (int limit = 128; limit <= 136; limit++) {
        const Finished finished =
            run({"timeout", "2", "prlimit", "--nofile=" + std::to_string(limit), exporter_binary(),
                 no_address, "--config.file=" + (directory / "config.yaml").string()});
        INFO(limit << '\n' << finished.output);
        constexpr int timed_out = 124;  // it serves
        CHECK((finished.code == 1 || finished.code == timed_out));
        CHECK(finished.output.find("std::") == std::string::npos);
        CHECK(finished.output.find("the limit of open files may be too low") != std::string::npos);
        if (finished.output.find("oo many open files") != std::string::npos ||
            finished.output.find("msg=\"listening\"") == std::string::npos) {
            CHECK(finished.output.find(limit_sentence(limit)) != std::string::npos);
        }
    }
}

// What opens when a file opens no more differs from start to start: this one never opens.
TEST_CASE("CPUs that cannot be counted are one sentence", "[e2e]") {
    require_bpf();
    check_one_sentence(start({no_address}, {"unshare", "-m", "sh", "-c",
                                            "mount -t tmpfs none /sys/devices/system/cpu && "
                                            "exec \"$@\"",
                                            "sh"}),
                       "count the CPUs: No such file or directory");
}

TEST_CASE("an unknown flag or command is named", "[e2e]") {
    for (const std::string argument : {"--frobnicate", "frobnicate", "--web.listen-address=nowhere",
                                       "--log.level=loud", "--web.telemetry-path=metrics"}) {
        const Finished finished = start({argument});
        INFO(finished.output);
        CHECK(finished.code != 0);
        CHECK(finished.output.find(argument.substr(0, argument.find('='))) != std::string::npos);
        CHECK(std::ranges::count(finished.output, '\n') <= 2);  // and where help is
    }
}

TEST_CASE("a busy port is one sentence", "[e2e]") {
    require_bpf();
    const Exporter first;
    const std::string address = "127.0.0.1:" + std::to_string(first.port());
    // These are down on a machine without kprobes or tracefs, and say so.
    const TemporaryDirectory directory;
    const auto file = directory / "config.yaml";
    write_file(file, "pcie: {enabled: false}\nnvlink: {enabled: false}\nfence: {enabled: false}\n");
    const Finished second = start(
        {"--config.file=" + file.string(), "--web.listen-address=" + address, "--log.level=error"});
    check_one_sentence(second, "cannot listen on " + address + ": address already in use");
    CHECK(http(first.port(), "/-/healthy").status == 200);
}

TEST_CASE("without privileges it says which are missing", "[e2e]") {
    require_bpf();
    const TemporaryDirectory directory;
    // A place that everyone can read, which the build directory may not be.
    std::filesystem::copy_file(exporter_binary(), directory / "gpusnoop_exporter");
    REQUIRE(::chmod(directory.path().c_str(), 0755) == 0);
    const Finished finished =
        start({no_address}, {"setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"},
              directory / "gpusnoop_exporter");
    check_one_sentence(finished, "CAP_BPF, CAP_PERFMON");
}

TEST_CASE("a kernel without BTF is one sentence", "[e2e]") {
    require_bpf();
    const TemporaryDirectory empty;
    const Finished finished =
        start({no_address}, {"unshare", "--mount", "sh", "-c",
                             "mount --bind \"$0\" /sys/kernel/btf && exec \"$@\"", empty.path()});
    check_one_sentence(finished, "this kernel has no BTF");
}

TEST_CASE("a machine where nothing uses CUDA is served", "[e2e]") {
    require_bpf();
    // No library has this name, so that it does not matter what else runs here.
    const Exporter exporter("cuda:\n  libraries: [libcudart-nowhere.so]\n");
    CHECK(exporter.log().find("no process uses a library of this probe yet") != std::string::npos);
    CHECK(exporter.log().find("level=WARN") == std::string::npos);
    CHECK(exporter.log().find("level=ERROR") == std::string::npos);
    const Page page = exporter.scrape();
    CHECK(page.sum("gpusnoop_probe_up", {{"probe", "cuda"}}) == 1);
    CHECK(state_of(page, "cuda") == "up");
    CHECK(state_of(page, "functions") == "disabled");
    CHECK(page.has("gpusnoop_probe_attached_functions"));
    CHECK(page.sum("gpusnoop_probe_attached_functions") == 0);
    CHECK(page.sum("gpusnoop_probe_attach_failures_total") == 0);
    CHECK(http(exporter.port(), "/-/ready").status == 200);
    CHECK(http(exporter.port(), "/").body.find("no CUDA library in use yet") != std::string::npos);
}
