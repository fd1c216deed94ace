// TCP and UDP sockets of followed processes, against what the programs and the kernel say of them.
#include <signal.h>
#include <sys/stat.h>

#include <catch2/catch_test_macros.hpp>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "tests/harness/exporter.h"
#include "tests/harness/guest.h"
#include "tests/harness/probe_state.h"
#include "tests/harness/trace.h"

using namespace harness;
using Json = nlohmann::json;

namespace {

constexpr auto connects = "gpusnoop_host_tcp_connect_duration_seconds_count";
constexpr auto failures = "gpusnoop_host_tcp_connect_failures_total";
constexpr auto connections = "gpusnoop_host_tcp_connections";
constexpr auto sent = "gpusnoop_host_tcp_sent_bytes_total";
constexpr auto received = "gpusnoop_host_tcp_received_bytes_total";
constexpr auto segments = "gpusnoop_host_tcp_sent_segments_total";
constexpr auto retransmits = "gpusnoop_host_tcp_retransmits_total";
constexpr auto rtts = "gpusnoop_host_tcp_rtt_seconds_count";
constexpr auto drops = "gpusnoop_host_udp_receive_drops_total";

const std::string host_net_of_name =
    "cuda: {enabled: false}\ntargets: {comms: [\"li[v]es\"]}\n"
    "host: {net: {enabled: true, look_interval: 1s}}\n";

Process host_net_lives(std::vector<std::string> steps) {
    steps.insert(steps.begin(), standin("lives"));
    return Process(std::move(steps));
}

double host_net_probe(const Page &page, const std::string &what) {
    return page.sum("gpusnoop_probe_" + what, {{"probe", "host_net"}});
}

void check_lost(const Page &page) {
    const double left_out = left_out_runs(page, "host_net");
    CHECK(host_net_probe(page, "events_lost_total") == left_out);
    CHECK(left_out <= 2);
}

// What the last line of the program with this word at its beginning says.
std::vector<double> numbers_of(const Process &process, const std::string &word) {
    std::vector<double> numbers;
    std::istringstream lines(process.output());
    for (std::string line; std::getline(lines, line);) {
        if (line.starts_with(word + " ")) {
            std::istringstream words(line.substr(word.size()));
            numbers.clear();
            for (double number = 0; words >> number;) {
                numbers.push_back(number);
            }
        }
    }
    return numbers;
}

// A cgroup of version 2.
class UnifiedCgroup {
public:
    UnifiedCgroup() {
        for (const std::string root : {"/sys/fs/cgroup/unified", "/sys/fs/cgroup"}) {
            std::error_code error;
            path_ = root + "/gpusnoop_test_net";
            if (std::filesystem::exists(root + "/cgroup.procs") &&
                (std::filesystem::create_directory(path_, error) ||
                 std::filesystem::exists(path_))) {
                return;
            }
        }
        missing("cgroups of version 2");
    }
    ~UnifiedCgroup() {
        std::error_code error;
        std::filesystem::remove(path_, error);
    }
    UnifiedCgroup(const UnifiedCgroup &) = delete;
    UnifiedCgroup &operator=(const UnifiedCgroup &) = delete;

    void take(pid_t pid) const {
        write_file(std::filesystem::path(path_) / "cgroup.procs", std::to_string(pid));
    }

private:
    std::string path_;
};

}  // namespace

TEST_CASE("connects are counted, and those that fail by their errors", "[kernel][core]") {
    require_bpf();
    const Exporter exporter(without_company(host_net_of_name));
    Process process = host_net_lives({"wait", "connects", "500", "refused", "20", "wait", "ignored",
                                      "3", "wait", "hang_up", "wait", "portless", "4", "wait"});
    process.go_on_to(2);
    Page page = exporter.wait_for(connects, {{"comm", "lives"}, {"role", "gpu"}}, 500);
    CHECK(page.sum(failures, {{"error", "ECONNREFUSED"}}) == 20);
    CHECK(page.sum(failures) == 20);
    CHECK(host_net_probe(page, "entries_total") == 520);
    CHECK(host_net_probe(page, "events_total") == 520);

    process.go_on_to(3);
    page = exporter.wait_for(connects, {}, 502);  // the others are still in theirs
    CHECK(host_net_probe(page, "entries_total") == host_net_probe(page, "events_total") + 3);
    process.go_on_to(4);
    page = exporter.wait_for(failures, {{"error", "given_up"}}, 3);
    CHECK(page.sum(failures) == 23);
    CHECK(page.sum(connects) == 502);
    process.go_on_to(5);
    page = exporter.wait_for(failures, {{"error", "EADDRNOTAVAIL"}}, 4);
    CHECK(page.sum(failures) == 27);
    CHECK(page.sum(connects) == 504);
    CHECK(host_net_probe(page, "entries_total") == host_net_probe(page, "events_total"));
    check_lost(page);
    CHECK(state_of(page, "host_net") == "up");
}

TEST_CASE("bytes and segments of connections are what the kernel says of them", "[kernel]") {
    require_bpf();
    const Exporter exporter(host_net_of_name);
    Process process =
        host_net_lives({"wait", "pairs", "3", "pairs6", "2", "say", "100000", "info", "wait",
                        "lose", "2", "info", "wait", "hang_up", "wait", "exit", "0"});
    process.go_on_to(2);
    const Labels of = {{"comm", "lives"}, {"role", "gpu"}, {"peer", "loopback"}};
    Page page = exporter.wait_for(sent, of, 500'000);
    CHECK(page.sum(received, of) == 500'000);
    CHECK(page.sum(connections, of) == 10);
    CHECK(page.sum(rtts, of) == 10);
    const auto agrees = [&](const std::vector<double> &truth) {
        page = exporter.scrape();
        return truth.size() == 4 && page.sum(sent, of) == truth[0] &&
               page.sum(received, of) == truth[1] && page.sum(segments, of) == truth[2] &&
               page.sum(retransmits, of) == truth[3];
    };
    eventually("what TCP_INFO has", [&] { return agrees(numbers_of(process, "info")); });
    CHECK(page.sum(retransmits) == 0);

    process.go_on_to(3);
    eventually("what TCP_INFO has, again", [&] { return agrees(numbers_of(process, "info")); });
    CHECK(page.sum(retransmits) >= 10);
    CHECK(page.sum(sent) == 500'025);
    const double sent_again = page.sum(retransmits);

    process.go_on_to(4);
    eventually("the connections to be gone", [&] { return !exporter.scrape().has(connections); });
    page = exporter.scrape();
    CHECK(page.sum(sent) == 500'025);
    CHECK(page.sum(received) == 500'025);
    CHECK(page.sum(retransmits) == sent_again);
    check_lost(page);
    process.finish();
}

TEST_CASE("a shared socket counts once, and older connections from now on", "[kernel]") {
    require_bpf();
    Process process = host_net_lives({"pairs", "2", "say", "7000", "wait", "say", "1000", "wait",
                                      "share", "500", "wait", "short_talk", "3000", "wait"});
    process.wait_for_output("waiting 1");
    ::usleep(300'000);  // it is no new process
    const Exporter exporter(host_net_of_name);
    Page page = exporter.wait_for(connections, {}, 4);
    CHECK(page.sum(sent) == 0);
    CHECK_FALSE(page.has(rtts));

    process.go_on_to(2);
    page = exporter.wait_for(sent, {}, 2'000);
    CHECK(page.sum(received) == 2'000);
    process.go_on_to(3);
    page = exporter.wait_for(sent, {}, 3'000);
    CHECK(page.sum(received) == 3'000);
    CHECK(page.sum(connections) == 4);
    CHECK(page.sum(connects) == 0);
    // It ends between two looks.
    process.go_on_to(4);
    page = exporter.wait_for(sent, {}, 6'000);
    CHECK(page.sum(received) == 6'000);
    CHECK(page.sum(connects) == 1);
}

TEST_CASE("connections of a GPU process's workers are theirs, and nobody else's are counted",
          "[kernel]") {
    require_bpf();
    const Exporter exporter(attached_by("session") +
                            "host: {net: {enabled: true, look_interval: 1s}}\n");
    const Process holder = host_net_lives({"wait"});
    exporter.wait_until_attached_to(standin("12/libcudart.so.12"));
    Process other(
        {standin("lives"), "name", "stranger", "connects", "5", "pairs", "1", "say", "10", "wait"});
    other.wait_for_output("waiting 1");
    Process caller =
        host_net_lives({"cuda", "wait", "pairs", "1", "say", "100", "short_talk", "2000", "wait"});
    caller.go_on_to(2);
    Page page = exporter.wait_for(sent, {{"comm", "lives"}, {"role", "worker"}}, 2'000);
    CHECK(page.sum(received, {{"role", "worker"}}) == 2'000);
    CHECK(page.sum(connects, {{"role", "worker"}}) == 1);
    page = exporter.wait_for(sent, {{"comm", "lives"}, {"role", "gpu"}}, 100);
    CHECK(page.sum(connects, {{"role", "gpu"}}) == 1);
    CHECK_FALSE(page.has(sent, {{"comm", "stranger"}}));
    CHECK_FALSE(page.has(connects, {{"comm", "stranger"}}));
}

TEST_CASE("connections that are accepted and closed between two looks are counted", "[kernel]") {
    require_bpf();
    Process server = host_net_lives({"wait", "serves", "4", "wait"});
    server.wait_for_output("waiting 1");
    const Exporter exporter("cuda: {enabled: false}\ntargets: {pids: [" +
                            std::to_string(server.pid()) +
                            "]}\nhost: {net: {enabled: true, look_interval: 1s}}\n");
    ::sleep(2);  // it has been looked at
    server.signal(SIGUSR1);
    eventually("a port", [&] { return numbers_of(server, "port").size() == 1; });
    const int port = static_cast<int>(numbers_of(server, "port").front());
    Process client = host_net_lives({"calls", std::to_string(port), "4", "1500", "exit", "0"});
    CHECK(client.wait() == 0);
    const Page page = exporter.wait_for(received, {{"peer", "loopback"}}, 6'000);
    CHECK(page.sum(sent) == 0);
    CHECK(page.sum(connects) == 0);
}

TEST_CASE("a connection to another address than one's own is remote", "[kernel]") {
    require_bpf();
    const Exporter exporter(host_net_of_name);
    Process process = host_net_lives({"far", "2", "say", "3000", "wait"});
    process.wait_for_output("waiting 1");
    const Page page = exporter.wait_for(sent, {{"peer", "remote"}}, 6'000);
    CHECK(page.sum(received, {{"peer", "remote"}}) == 6'000);
    CHECK(page.sum(connections, {{"peer", "remote"}}) == 4);
    CHECK_FALSE(page.has(sent, {{"peer", "loopback"}}));
}

TEST_CASE("the list of connections has their addresses and what TCP_INFO has", "[kernel]") {
    require_bpf();
    const Exporter exporter(host_net_of_name);
    Process process = host_net_lives({"pairs", "3", "say", "5000", "rtts", "pairs6", "1", "wait"});
    process.wait_for_output("waiting 1");
    (void)exporter.wait_for(connections, {}, 8);
    const HttpAnswer answer = http(exporter.port(), "/api/v1/connections?comm=liv*&sort=bytes");
    REQUIRE(answer.status == 200);
    const Json all = Json::parse(answer.body).at("connections");
    REQUIRE(all.size() == 8);
    std::map<std::string, double> rtt_of;
    std::istringstream words(process.output());
    for (std::string word; words >> word;) {
        if (std::string port, rtt; word == "rtt" && words >> port >> rtt) {
            rtt_of["127.0.0.1:" + port] = std::stod(rtt) / 1e6;
        }
    }
    CHECK(rtt_of.size() == 3);
    std::size_t found = 0;
    for (const Json &one : all) {
        CAPTURE(one.dump());
        CHECK(one.at("pid") == process.pid());
        CHECK(one.at("comm") == "lives");
        CHECK(one.at("role") == "gpu");
        CHECK(one.at("state") == "ESTABLISHED");
        CHECK(one.at("peer") == "loopback");
        if (const auto rtt = rtt_of.find(one.at("local")); rtt != rtt_of.end()) {
            CHECK(one.at("rtt_seconds") == rtt->second);
            CHECK(one.at("sent_bytes") == 5'000);
            CHECK(one.at("received_bytes") == 0);
            found++;
        }
    }
    CHECK(found == 3);
    CHECK(all[7].at("local").get<std::string>().starts_with("[::1]:"));
    const auto query = [&](const std::string &text) {
        return http(exporter.port(), "/api/v1/connections?" + text);
    };
    CHECK(Json::parse(query("limit=2&sort=rtt").body).at("left_out") == 6);
    CHECK(Json::parse(query("pid=1").body).at("connections").empty());
    CHECK(query("sort=age").status == 400);
    CHECK(query("port=1").status == 400);
}

TEST_CASE("datagrams that found no room are counted by cgroup", "[kernel]") {
    require_bpf();
    const UnifiedCgroup cgroup;
    const Exporter exporter(host_net_of_name + "discovery: {rescan_interval: 1s}\n");
    Process process = host_net_lives({"wait", "datagrams", "100", "wait"});
    process.wait_for_output("waiting 1");
    cgroup.take(process.pid());
    const Labels of = {{"cgroup", "gpusnoop_test_net"}};
    eventually("the cgroup to be in use", [&] { return exporter.scrape().has(drops, of); });
    CHECK(exporter.scrape().sum(drops) == 0);
    process.go_on_to(2);
    const auto lost = numbers_of(process, "lost");
    REQUIRE(lost.size() == 1);
    CHECK(lost[0] > 50);
    const Page page = exporter.wait_for(drops, of, lost[0]);
    CHECK(page.sum(drops) == lost[0]);
    // In no cgroup of a followed process.
    Process stranger({standin("lives"), "name", "stranger", "datagrams", "100", "exit", "0"});
    CHECK(stranger.wait() == 0);
    CHECK(exporter.scrape().sum(drops) == lost[0]);
}

TEST_CASE("a trace of TCP has each change of state", "[kernel]") {
    require_bpf();
    Trace trace("tcp", "", {"--comm=lives"});
    Process process = host_net_lives({"wait", "connects", "3", "refused", "2", "wait"});
    process.go_on_to(2);
    std::map<std::string, int> states;
    eventually("all lines", [&] {
        states.clear();
        for (const Json &line : trace.calls()) {
            states[line.at("old_state").get<std::string>() + " " +
                   line.at("new_state").get<std::string>()]++;
        }
        return states["SYN_SENT CLOSE"] == 2 && states["CLOSE LISTEN"] == 1 &&
               states["LAST_ACK CLOSE"] + states["FIN_WAIT2 CLOSE"] >= 6;
    });
    CHECK(states["CLOSE SYN_SENT"] == 5);
    CHECK(states["SYN_SENT ESTABLISHED"] == 3);
    for (const Json &line : trace.finish()) {
        CAPTURE(line.dump());
        CHECK(line.at("comm") == "lives");
        CHECK(line.at("pid") == process.pid());
        if (line.at("old_state") == "SYN_SENT") {
            CHECK(line.at("in_state_ns").get<std::uint64_t>() > 0);
            CHECK(line.at("remote").get<std::string>().starts_with("127.0.0.1:"));
            CHECK(line.at("error").is_null() == (line.at("new_state") == "ESTABLISHED"));
        }
    }
}
