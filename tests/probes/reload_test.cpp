// Reloads of the configuration that fail, that bring what cannot change, or that come too often.
#include <signal.h>
#include <sys/stat.h>

#include <atomic>
#include <filesystem>
#include <thread>

#include "tests/harness/cuda_truth.h"
#include "tests/probes/functions/reload.h"

using namespace harness;

TEST_CASE("an invalid file changes nothing and is explained, and the next good one is taken",
          "[kernel][core]") {
    require_bpf();
    Exporter exporter(one("auto"));
    const Process holder({standin("calls"), "--iterations", "0", "--hold", "--name", "holder"});
    exporter.wait_until_attached_to(standin("libcalls.so.1"));
    const Page start = exporter.scrape();
    CHECK(start.sum(successful) == 1);
    const double started = start.sum(timestamp);
    CHECK(started > 1'700'000'000);

    exporter.configure("log: {level: info}\nfunctions:\n  max_functions: none\n  grups: {}\n");
    const HttpAnswer answer = post_reload(exporter);
    CHECK(answer.status == 500);
    CHECK(answer.body.starts_with("failed to reload config: "));
    CHECK(answer.body.find("config.yaml:3:18: functions.max_functions: ") != std::string::npos);
    CHECK(answer.body.find("config.yaml:4:3: functions.grups: ") != std::string::npos);
    for (const std::string sentence :
         {":3:18: functions.max_functions: ", ":4:3: functions.grups: "}) {
        CHECK(exporter.log().find(sentence) != std::string::npos);
    }
    CHECK(exporter.scrape().sum(successful) == 0);
    CHECK(exporter.scrape().sum(timestamp) == started);
    std::set<std::string> present = stays;
    present.insert(in_one.begin(), in_one.end());
    check_counted(exporter, only(run_mix("before"), present), "before", in_other);

    const std::size_t failures = count(exporter.log(), "failed to reload config");
    exporter.process().signal(SIGHUP);
    eventually("a line on the failure",
               [&] { return count(exporter.log(), "failed to reload config") > failures; });
    CHECK(exporter.scrape().sum(successful) == 0);

    reload(exporter, other_library("auto"));
    CHECK(exporter.scrape().sum(successful) == 1);
    CHECK(exporter.scrape().sum(timestamp) > started);
    present = stays;
    present.insert(in_other.begin(), in_other.end());
    check_counted(exporter, only(run_mix("after"), present), "after", in_one);
}

TEST_CASE("a configuration that has become a FIFO hangs neither a reload nor the end", "[kernel]") {
    require_bpf();
    const TemporaryDirectory directory;
    const std::filesystem::path file = directory / "config.yaml";
    const std::filesystem::path fifo = directory / "fifo";
    write_file(file, "cuda: {enabled: false}\nfunctions: {enabled: false}\n");
    REQUIRE(::mkfifo(fifo.c_str(), 0600) == 0);
    Process exporter(
        {exporter_binary(), "--config.file=" + file.string(), "--web.listen-address=127.0.0.1:0"});
    exporter.wait_for_output("msg=\"listening\"");
    std::filesystem::rename(fifo, file);
    exporter.signal(SIGHUP);
    exporter.wait_for_output("nothing came out of the file within 2 s");
    exporter.signal(SIGHUP);
    exporter.signal(SIGTERM);
    CHECK(exporter.wait() == 0);
}

TEST_CASE("what needs a restart is named, and the rest is taken over", "[kernel]") {
    require_bpf();
    Exporter exporter(one("auto"));
    const Process holder({standin("calls"), "--iterations", "0", "--hold", "--name", "holder"});
    exporter.wait_until_attached_to(standin("libcalls.so.1"));
    reload(exporter, "web: {telemetry_path: /other}\nlog: {level: warn}\nlabels: {pid: true}\n" +
                         other_library("auto"));
    for (const std::string key : {"web.telemetry_path", "labels.pid"}) {
        CHECK(count(exporter.log(), "msg=\"a changed setting needs a restart\" key=" + key) +
                  count(exporter.log(),
                        "msg=\"a changed setting needs a restart\" key=\"" + key + "\"") ==
              1);
    }
    CHECK(count(exporter.log(), "needs a restart") == 2);
    CHECK(exporter.scrape().has(successful));  // at the path of the start
    std::set<std::string> present = stays;
    present.insert(in_other.begin(), in_other.end());
    check_counted(exporter, only(run_mix("applied"), present), "applied", in_one);
    // The level is that of the file.
    CHECK(count(exporter.log(), "configuration reloaded") == 0);
    reload(exporter, other_library("auto"));
    CHECK(count(exporter.log(), "configuration reloaded") == 1);
    CHECK(count(exporter.log(), "needs a restart") == 2);
}

TEST_CASE("a storm of reloads is answered, and nothing is lost in it", "[kernel]") {
    require_bpf();
    Exporter exporter(one("auto"));
    const Process holder({standin("calls"), "--iterations", "0", "--hold", "--name", "holder"});
    exporter.wait_until_attached_to(standin("libcalls.so.1"));
    Process counted = start_calling("storm", 8);
    std::atomic<int> reloaded = 0;
    std::atomic<int> too_many = 0;
    std::atomic<int> refused = 0;
    for (int round = 0; round < 5; round++) {
        exporter.configure(round % 2 == 0 ? other_library("auto") : one("auto"));
        std::vector<std::jthread> clients;
        for (int i = 0; i < 20; i++) {
            clients.emplace_back([&] {
                const HttpAnswer answer = post_reload(exporter);
                reloaded += answer.status == 200 ? 1 : 0;
                too_many += answer.status == 503 ? 1 : 0;
                refused += answer.status == 200 || answer.status == 503 ? 0 : 1;
            });
            exporter.process().signal(SIGHUP);
        }
        clients.clear();
    }
    CHECK(reloaded > 0);
    CHECK(reloaded + too_many == 100);
    CHECK(refused == 0);
    reload(exporter, one("auto"));
    CHECK(exporter.scrape().sum("gpusnoop_probe_attached_functions", {{"probe", "functions"}}) ==
          8);
    CHECK(exporter.scrape().sum(successful) == 1);
    const CallsTruth truth = stop(counted);
    for (const std::string &name : stays) {
        CAPTURE(name);
        (void)exporter.wait_for(calls_total, {{"comm", "storm"}, {"function", name}},
                                number(truth.at(name).returned));
    }
    check_account_at_rest(exporter);
    for (const std::string method : {"GET", "HEAD", "PUT"}) {
        CAPTURE(method);
        const HttpAnswer answer =
            http(exporter.port(), "/-/reload", method, "Content-Length: 0\r\n");
        CHECK(answer.status == 405);
        CHECK(answer.headers.find("Allow: POST\r\n") != std::string::npos);
    }
}
