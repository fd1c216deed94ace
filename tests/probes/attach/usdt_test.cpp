// What programs do between two USDT probes, against the programs' own counts.
#include <signal.h>

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <catch2/generators/catch_generators_range.hpp>
#include <filesystem>
#include <map>
#include <sstream>

#include "tests/harness/calls_truth.h"
#include "tests/harness/cuda_truth.h"
#include "tests/harness/exporter.h"
#include "tests/probes/functions/reload.h"

using namespace harness;
namespace fs = std::filesystem;

namespace {

constexpr const char *duration_sum = "gpusnoop_function_duration_seconds_sum";

struct Passed {
    double calls = 0;
    double inside_seconds = 0;
    double around_seconds = 0;
};

// What `marked` prints.
std::map<std::string, Passed> parse(const std::string &output) {
    std::map<std::string, Passed> passed;
    std::istringstream lines(output);
    for (std::string line; std::getline(lines, line);) {
        std::istringstream words(line);
        std::string name;
        Passed one;
        if (words >> name >> one.calls >> one.inside_seconds >> one.around_seconds) {
            one.inside_seconds /= 1e9;
            one.around_seconds /= 1e9;
            passed[name] = one;
        }
    }
    return passed;
}

constexpr const char *marks = R"(
    marks:
      libraries: [marked]
      functions: [marked_step]
      usdt:
        - {name: plain, provider: marked, begin: plain__begin, end: plain__end}
        - {name: guarded, provider: marked, begin: guarded__begin, end: guarded__end}
        - {name: held, provider: marked, begin: held__begin, end: held__end}
        - {name: inner, provider: marked, begin: inner__begin, end: inner__end}
        - {name: again, provider: marked, begin: again__begin, end: again__end}
)";

void check_passed(const Exporter &exporter, const std::map<std::string, Passed> &passed) {
    REQUIRE(passed.size() == 5);
    for (const auto &[name, truth] : passed) {
        CAPTURE(name);
        const Labels of = {{"comm", "marked"}, {"function", name}};
        const Page page = exporter.wait_for(calls_total, of, truth.calls);
        CHECK(page.sum("gpusnoop_function_duration_seconds_count", of) == truth.calls);
        CHECK(page.sum(duration_sum, of) >= truth.inside_seconds);
        CHECK(page.sum(duration_sum, of) <= truth.around_seconds);
    }
}

// A program whose file name is the interpreter's, if it has the probes of python.
std::string python_with_probes() {
    const std::string python = fs::canonical("/usr/bin/python3");
    if (run({"readelf", "-n", python}).output.find("gc__start") == std::string::npos) {
        missing("a python3 with USDT probes");
    }
    return python;
}

constexpr const char *python_group = R"(
    interpreter:
      libraries: ["libpython3*.so*", "python3.[0-9]", "python3.[0-9][0-9]"]
      functions:
        - {name: gil_wait, symbol: PyEval_RestoreThread, endings: returns}
        - {name: gil_wait, symbol: PyEval_AcquireThread, endings: returns}
      usdt: [{name: gc, provider: python, begin: gc__start, end: gc__done}]
)";

}  // namespace

TEST_CASE("what a program does between USDT probes is counted, with semaphores and without",
          "[kernel][core]") {
    require_bpf();
    const std::string mode = GENERATE(from_range(attach_modes()));
    CAPTURE(mode);
    std::string semaphores;
    const Process program({standin("marked"), "4", "300"});
    {
        const Exporter exporter(only_groups(mode) + marks);
        exporter.wait_until_attached_to(standin("marked"));
        program.wait_for_output("ready");
        program.signal(SIGUSR1);
        program.wait_for_output("semaphores");
        const auto passed = parse(program.output());
        REQUIRE(passed.at("plain").calls == 1200);
        REQUIRE(passed.at("guarded").calls == 1200);
        check_passed(exporter, passed);
        CHECK(calls(exporter.scrape(), "marked", "marked_step") == 3600);
        CHECK(program.output().find("semaphores 1 1\n") != std::string::npos);
        // Each that never ended is stale.
        check_account_at_rest(exporter);
    }
    program.wait_for_output("ready");
    program.signal(SIGUSR1);
    program.wait_for_output("semaphores 0 0\n");
}

TEST_CASE("a file without a USDT probe is a failure of its own, and its functions are counted",
          "[kernel]") {
    require_bpf();
    const Exporter exporter(only_groups("auto") + R"(
    lacks:
      libraries: [marked]
      functions: [marked_step]
      usdt: [{name: gc, provider: marked, begin: gc__start, end: plain__end}]
)");
    const Process program({standin("marked"), "1", "100"});
    exporter.wait_until_attached_to(standin("marked"));
    program.wait_for_output("ready");
    program.signal(SIGUSR1);
    program.wait_for_output("semaphores 0 0\n");
    const Page page =
        exporter.wait_for(calls_total, {{"comm", "marked"}, {"function", "marked_step"}}, 300);
    CHECK_FALSE(page.has(calls_total, {{"comm", "marked"}, {"function", "gc"}}));
    CHECK(page.sum("gpusnoop_probe_attach_failures_total",
                   {{"probe", "functions"}, {"reason", "no_probe"}}) == 1);
    CHECK(exporter.log().find("marked:gc__start") != std::string::npos);
}

TEST_CASE("USDT probes come and go with a reload", "[kernel]") {
    require_bpf();
    const std::string mode = GENERATE(from_range(attach_modes()));
    CAPTURE(mode);
    const std::string without = only_groups(mode) + R"(
    marks: {libraries: [marked], functions: [marked_step]}
)";
    Exporter exporter(without);
    const Process first({standin("marked"), "2", "100"});
    exporter.wait_until_attached_to(standin("marked"));
    reload_by_signal(exporter, only_groups(mode) + marks);
    first.wait_for_output("ready");
    first.signal(SIGUSR1);
    first.wait_for_output("semaphores 1 1\n");
    auto passed = parse(first.output());
    check_passed(exporter, passed);

    reload_by_signal(exporter, without);
    const Process second({standin("marked"), "2", "100"});
    second.wait_for_output("ready");
    second.signal(SIGUSR1);
    second.wait_for_output("semaphores");
    const Page page =
        exporter.wait_for(calls_total, {{"comm", "marked"}, {"function", "marked_step"}}, 1200);
    CHECK(calls(page, "marked", "plain") == passed.at("plain").calls);
    CHECK(calls(page, "marked", "guarded") == passed.at("guarded").calls);
}

TEST_CASE("a thread between USDT probes is in a call that has not returned", "[kernel]") {
    require_bpf();
    const std::string mode = GENERATE(from_range(attach_modes()));
    CAPTURE(mode);
    const Exporter exporter("in_flight: {min_age: 1ms}\n" + only_groups(mode) + marks);
    Process process({standin("marked"), "0", "0"});
    process.wait_for_output("ready");
    exporter.wait_until_attached_to(standin("marked"));
    process.signal(SIGUSR1);
    process.wait_for_output("held\n");
    const Labels of = {{"comm", "marked"}, {"function", "held"}};
    CHECK(exporter.wait_for("gpusnoop_calls_in_flight", of, 1)
              .samples("gpusnoop_calls_in_flight", {{"comm", "marked"}})
              .size() == 1);
    process.signal(SIGUSR1);
    process.wait_for_output("let go\n");
    (void)exporter.wait_for("gpusnoop_calls_in_flight", of, 0);
    CHECK(exporter.scrape().sum(calls_total, of) == 1);
}

TEST_CASE("garbage collections of Python are those that it tells its callbacks", "[kernel]") {
    require_bpf();
    const std::string python = python_with_probes();
    const std::string mode = GENERATE(from_range(attach_modes()));
    CAPTURE(mode);
    const TemporaryDirectory directory;
    const fs::path script = directory / "collects.py";
    // Those before the callback was there are known from the statistics.
    write_file(script, R"(
import gc, signal
def done():
    return sum(generation["collections"] for generation in gc.get_stats())
collections = 0
def note(phase, info):
    global collections
    collections += phase == "start"
gc.disable()
before = done()
gc.callbacks.append(note)
gc.enable()
kept = []
for i in range(200000):
    kept.append([i])
    if i % 5000 == 0:
        gc.collect()
        kept = []
gc.disable()
assert done() == before + collections
print("collections", before, collections, "done", flush=True)
signal.pause()
)");
    const Exporter exporter(only_groups(mode) + python_group);
    const Process holder({python, "-c", "import signal; signal.pause()"});
    exporter.wait_until_attached_to(python);
    const Process process({python, script});
    process.wait_for_output("done");
    std::string word;
    double before = 0;
    double collections = 0;
    std::istringstream(process.output()) >> word >> before >> collections;
    REQUIRE(collections > 100);
    (void)exporter.wait_for(calls_total, {{"script", "collects.py"}, {"function", "gc"}},
                            before + collections);
}

TEST_CASE("waits for the GIL are the time that a thread neither ran nor waited for a CPU",
          "[kernel]") {
    require_bpf();
    const std::string python = python_with_probes();
    const std::string mode = GENERATE(from_range(attach_modes()));
    const std::string burners = GENERATE("1", "2");
    CAPTURE(mode, burners);
    const TemporaryDirectory directory;
    const fs::path script = directory / "waits.py";
    // crc32() of much gives the GIL away, and sleeps never.
    write_file(script, R"(
import signal, sys, threading, time, zlib
def account():
    with open("/proc/thread-self/schedstat") as file:
        ran, waited, times = map(int, file.read().split())
    return time.monotonic_ns(), ran, waited
def burn():
    while not stop:
        pass
stop = False
data = bytes(200000)
threads = [threading.Thread(target=burn) for _ in range(int(sys.argv[1]))]
for thread in threads:
    thread.start()
calls = 0
began = account()
while time.monotonic_ns() < began[0] + 2_000_000_000:
    zlib.crc32(data)
    calls += 1
ended = account()
stop = True
for thread in threads:
    thread.join()
print(calls, *(after - before for before, after in zip(began, ended)), "done", flush=True)
signal.pause()
)");
    const Exporter exporter(only_groups(mode) + python_group);
    const Process holder({python, "-c", "import signal; signal.pause()"});
    exporter.wait_until_attached_to(python);
    const Process process({python, script, burners});
    process.wait_for_output("done");
    double calls = 0;
    double wall = 0;
    double ran = 0;
    double ready = 0;
    std::istringstream(process.output()) >> calls >> wall >> ran >> ready;
    REQUIRE(calls > 50);
    const Labels of = {{"script", "waits.py"}, {"function", "gil_wait"}};
    eventually("the calls", [&] { return exporter.scrape().sum(calls_total, of) >= calls; });
    const double waited = exporter.scrape().sum(duration_sum, of);
    CAPTURE(process.output(), waited);
    // A thread that gets the GIL waits for a CPU first, and all start and end with a wait.
    CHECK(waited >= 0.98 * (wall - ran - ready) / 1e9);
    CHECK(waited <= 1.02 * (wall - ran) / 1e9 + 0.1);
}

TEST_CASE("garbage collections of Java are those of its own beans", "[kernel]") {
    require_bpf();
    const Finished found = run({"sh", "-c", "readlink -f \"$(command -v java)\""});
    const fs::path home = fs::path(found.output).parent_path().parent_path();
    const fs::path machine = home / "lib/server/libjvm.so";
    if (!fs::exists(machine)) {
        missing("a JDK");
    }
    const std::string mode = GENERATE(from_range(attach_modes()));
    CAPTURE(mode);
    const TemporaryDirectory directory;
    const fs::path program = directory / "Collects.java";
    write_file(program, R"(
import java.lang.management.ManagementFactory;

public class Collects {
    public static void main(String[] arguments) throws Exception {
        Object[] kept = new Object[1000];
        for (int i = 0; i < 2000000; i++) kept[i % 1000] = new byte[500];
        for (int i = 0; i < 5; i++) System.gc();
        for (var bean : ManagementFactory.getGarbageCollectorMXBeans())
            System.out.println("collector " + bean.getCollectionCount() + " " + bean.getCollectionTime());
        System.out.println("done");
        Thread.sleep(600000);
    }
}
)");
    const Exporter exporter("labels: {pid: true}\n" + only_groups(mode) + R"(
    machine:
      libraries: ["libjvm.so"]
      usdt: [{name: gc, provider: hotspot, begin: gc__begin, end: gc__end}]
)");
    const std::vector<std::string> command = {home / "bin/java", "-XX:+UseSerialGC", "-Xmx64m",
                                              program};
    const Process holder(command);
    exporter.wait_until_attached_to(machine);
    holder.wait_for_output("done");
    const Process process(command);
    process.wait_for_output("done");
    double collections = 0;
    double milliseconds = 0;
    double collectors = 0;
    std::istringstream lines(process.output());
    for (std::string line; std::getline(lines, line);) {
        std::istringstream words(line);
        std::string word;
        double count = 0;
        double time = 0;
        if (words >> word >> count >> time && word == "collector") {
            collections += count;
            milliseconds += time;
            collectors++;
        }
    }
    INFO(process.output());
    REQUIRE(collectors == 2);
    REQUIRE(collections > 10);
    const Labels of = {{"function", "gc"}, {"pid", std::to_string(process.pid())}};
    const Page page = exporter.wait_for(calls_total, of, collections);
    // The beans count whole milliseconds, and begin behind the probe.
    const double seconds = page.sum(duration_sum, of);
    CHECK(seconds >= 0.9 * milliseconds / 1e3);
    CHECK(seconds <= 1.2 * milliseconds / 1e3 + collections * 1.5e-3);
}
