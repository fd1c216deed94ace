// /api/v1/profile of a running exporter, against programs that know where they spend their time.
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>

#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <chrono>
#include <cmath>
#include <filesystem>
#include <future>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <thread>

#include "tests/e2e/certificates.h"
#include "tests/e2e/hostile/hostile.h"
#include "tests/harness/cuda_workload.h"
#include "tests/harness/exporter.h"
#include "tests/probes/host/time.h"

using namespace harness;
using nlohmann::json;
using namespace std::chrono_literals;

namespace {

const std::string named =
    "functions: {enabled: false}\ntargets: {comms: [stacks]}\n" + beside_others();

Process hold_stacks(const std::string &what, const std::string &amount) {
    Process process({standin("stacks"), what, amount});
    process.wait_for_output("waiting");
    return process;
}

// What it says of its work, by name, when that is done.
std::map<std::string, double> said_by(const Process &process) {
    eventually("the work to be done", [&] {
        const std::string output = process.output();
        return output.find("waiting") != output.rfind("waiting");
    });
    std::map<std::string, double> said;
    std::istringstream lines(process.output());
    for (std::string line; std::getline(lines, line);) {
        if (const std::size_t blank = line.find(' '); blank != std::string::npos) {
            said[line.substr(0, blank)] = std::stod(line.substr(blank));
        }
    }
    return said;
}

using Asked = std::future<HttpAnswer>;

const std::string begins = "msg=\"the profile begins";

// Asks, and returns when the profile runs.
Asked ask(const Exporter &exporter, const std::string &query) {
    Asked asked = std::async(std::launch::async, [port = exporter.port(), query] {
        return http(port, "/api/v1/profile" + query);
    });
    exporter.wait_for_log(begins);
    return asked;
}

double samples_in(const json &profile, const std::string &function) {
    double samples = 0;
    for (const json &stack : profile.at("stacks")) {
        const bool has = std::ranges::any_of(
            stack.at("stack"), [&](const json &frame) { return frame.at("function") == function; });
        samples += has ? stack.at("samples").get<double>() : 0;
    }
    return samples;
}

std::string curl_status(std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), {"curl", "--silent", "--output", "/dev/null", "--max-time",
                                         "20", "--write-out", "%{http_code}"});
    return run(std::move(arguments)).output;
}

}  // namespace

TEST_CASE("a running exporter profiles what it follows, while it is scraped", "[e2e][beside]") {
    require_bpf();
    const Exporter exporter(named);
    const Process process = hold_stacks("burn", "1500");
    const Process other({"sh", "-c", "echo waiting; while true; do :; done"});
    Asked asked = ask(exporter, "?type=cpu&frequency=199&format=json&duration=6s");
    process.signal(SIGUSR1);
    int scrapes = 0;
    while (asked.wait_for(0s) != std::future_status::ready) {
        CHECK(exporter.scrape().has("gpusnoop_build_info"));
        CHECK(http(exporter.port(), "/").status == 200);
        CHECK(http(exporter.port(), "/api/v1/allocations").status == 200);
        scrapes++;
    }
    auto said = said_by(process);
    CHECK(scrapes >= 3);
    const HttpAnswer answer = asked.get();
    INFO(answer.body.substr(0, 2000));
    REQUIRE(answer.status == 200);
    CHECK(answer.headers.find("application/json") != std::string::npos);
    const json profile = json::parse(answer.body);
    CHECK(profile.at("samples_lost") == 0);
    CHECK(std::abs(profile.at("seconds").get<double>() - 6) < 1);
    const double one = samples_in(profile, "burn_one");
    const double three = samples_in(profile, "burn_three");
    CAPTURE(one, three, said["one"], said["three"]);
    CHECK(one + three >= 0.5 * 199 * (said["one"] + said["three"]) / 1e9);
    CHECK(one + three <= 1.1 * 199 * (said["one"] + said["three"]) / 1e9 + 5);
    const double share = said["three"] / (said["one"] + said["three"]);
    const double deviation = std::sqrt(share * (1 - share) / (one + three));
    CHECK(std::abs(three / (one + three) - share) <= 3.3 * deviation);
    // Not what is not followed, whatever it burns. (Beside the tests, a CUDA program may run.)
    for (const json &stack : profile.at("stacks")) {
        CHECK(stack.at("pid") != other.pid());
        CHECK(stack.at("comm") != "gpusnoop_export");
    }
}

TEST_CASE("the past that can be asked for is what was sampled, and ends as configured",
          "[e2e][long][beside]") {
    require_bpf();
    const Exporter exporter(named + "profile: {continuous_frequency: 199, keep: 10s}\n");
    Process process = hold_stacks("burn", "1500");
    process.signal(SIGUSR1);
    auto said = said_by(process);
    const auto past = [&] {
        const HttpAnswer answer =
            http(exporter.port(), "/api/v1/profile?past=10s&format=json&comm=stacks");
        INFO(answer.body.substr(0, 1000));
        REQUIRE(answer.status == 200);
        return json::parse(answer.body);
    };
    const json before = past();
    const double one = samples_in(before, "burn_one");
    const double three = samples_in(before, "burn_three");
    CAPTURE(one, three, said["one"], said["three"]);
    CHECK(before.at("samples_lost") == 0);
    CHECK(one + three >= 0.5 * 199 * (said["one"] + said["three"]) / 1e9);
    CHECK(one + three <= 1.1 * 199 * (said["one"] + said["three"]) / 1e9 + 5);
    process.signal(SIGKILL);
    (void)process.wait();

    // When it has moved from the kernel's table to the exporter's, it is the same.
    eventually("the next slice", [&] { return past().at("seconds").get<double>() > 11; });
    const json after = past();
    CHECK(samples_in(after, "burn_one") == one);
    CHECK(samples_in(after, "burn_three") == three);
    eventually("the burning to be too long ago",
               [&] { return samples_in(past(), "burn_three") == 0; });
    CHECK(past().at("seconds").get<double>() < 21);

    const Page page = exporter.scrape();
    CHECK(page.sum("gpusnoop_probe_up", {{"probe", "profile"}}) == 1);
    CHECK(page.sum("gpusnoop_probe_events_total", {{"probe", "profile"}}) >= one + three);
    CHECK(page.sum("gpusnoop_probe_events_lost_total", {{"probe", "profile"}}) == 0);
    // Another profile can be taken meanwhile.
    CHECK(http(exporter.port(), "/api/v1/profile?duration=100ms").status == 200);
    CHECK(http(exporter.port(), "/api/v1/profile?past=11s").status == 400);
}

TEST_CASE("a profile has GPU processes, and the CUDA calls that they are inside of", "[e2e]") {
    require_bpf();
    const Exporter exporter("functions: {enabled: false}\nhost: {time: {enabled: true}}\n");
    Process process({standin("spends"), "wait", "name", "profiled", "launch", "wait", "inside",
                     "synchronize", "sleep", "500", "wait"});
    process.wait_for_output("waiting 1");
    exporter.wait_until_attached_to(standin("12/libcudart.so.12"));
    process.go_on_to(2);
    Asked asked = ask(exporter, "?type=offcpu&duration=6s&format=json");
    process.go_on_to(3);
    // One that makes its first call while the profile runs, half a second after its beginning.
    const Process late({standin("spends"), "name", "late", "launch", "wait"});
    const HttpAnswer answer = asked.get();
    INFO(answer.body.substr(0, 4000));
    REQUIRE(answer.status == 200);
    const host_time::Notes notes = host_time::notes_in(process.output());
    double inside = 0;
    double of_late = 0;
    const json profile = json::parse(answer.body);
    for (const json &stack : profile.at("stacks")) {
        const double seconds = stack.at("seconds");
        if (stack.at("pid") == process.pid() && stack.at("cuda_call") == "cudaDeviceSynchronize") {
            inside += seconds;
            CHECK(stack.at("thread") == "profiled");
        }
        of_late += stack.at("pid") == late.pid() ? seconds : 0;
    }
    CHECK(host_time::is_near(inside, notes.spent.at({"wait", "sleep"})));
    // Not from before it began.
    CHECK(of_late > 1);
    CHECK(of_late < profile.at("seconds").get<double>() - 0.2);
    process.finish();
}

TEST_CASE("one profile runs at a time, and ends when its client goes away", "[e2e][beside]") {
    require_bpf();
    const Exporter exporter(named);
    const Process process = hold_stacks("burn", "1");
    Process client(
        {"curl", "--silent", "--no-buffer",
         "http://127.0.0.1:" + std::to_string(exporter.port()) + "/api/v1/profile?duration=5m"});
    exporter.wait_for_log(begins);
    const HttpAnswer refused = http(exporter.port(), "/api/v1/profile");
    CHECK(refused.status == 409);
    CHECK(refused.body.starts_with(
        "There is no profile: another profile is being taken, for at most "));
    client.signal(SIGKILL);
    eventually("the profile to end", [&] {
        return http(exporter.port(), "/api/v1/profile?duration=100ms").status == 200;
    });
    CHECK(exporter.log().find("result=\"the client disconnected\"") != std::string::npos);
}

TEST_CASE("profiles leave nothing behind", "[e2e]") {
    require_bpf();
    Exporter exporter(named);
    const Process process = hold_stacks("burn", "1");
    const std::string proc = "/proc/" + std::to_string(exporter.process().pid());
    const auto count_of = [&](const std::string &what) {
        return std::distance(std::filesystem::directory_iterator(proc + what),
                             std::filesystem::directory_iterator());
    };
    const auto profile = [&](const std::string &type) {
        return http(exporter.port(), "/api/v1/profile?duration=300ms&type=" + type).status;
    };
    CHECK(profile("cpu") == 200);  // the first one can make what stays
    const auto files = count_of("/fd");
    for (const std::string type : {"cpu", "offcpu", "page_faults"}) {
        CHECK(profile(type) == 200);
    }
    eventually("the last profile's thread to end, and its files to be closed",
               [&] { return count_of("/fd") <= files; });
    const auto threads = count_of("/task");
    CHECK(profile("cpu") == 200);
    eventually("the thread to end", [&] { return count_of("/task") <= threads; });
}

TEST_CASE("an exporter that ends while a profile runs does not wait for it", "[e2e][beside]") {
    require_bpf();
    Exporter exporter(named);
    const Process process = hold_stacks("burn", "1");
    Asked asked = ask(exporter, "?duration=5m");
    exporter.process().signal(SIGTERM);
    CHECK(exporter.process().wait() == 0);
    CHECK(asked.get().status != 200);
}

TEST_CASE("a profile in each format, and what is wrong with a request", "[e2e][beside]") {
    require_bpf();
    const Exporter exporter(named);
    const Process process = hold_stacks("touch", "10");
    const auto get = [&](const std::string &query) {
        return http(exporter.port(), "/api/v1/profile?duration=200ms&type=offcpu&" + query);
    };
    const auto type_of = [](const HttpAnswer &answer, const std::string &type) {
        CHECK(answer.status == 200);
        return answer.headers.find("Content-Type: " + type + "\r\n") != std::string::npos;
    };
    CHECK(type_of(get("format=folded"), "text/plain; charset=utf-8"));
    CHECK(type_of(get("format=json"), "application/json"));
    const HttpAnswer pprof = get("format=pprof");
    CHECK(type_of(pprof, "application/octet-stream"));
    CHECK(pprof.body.starts_with("\x1f\x8b"));
    const HttpAnswer svg = get("format=svg");
    CHECK(type_of(svg, "image/svg+xml"));
    CHECK(svg.headers.find("Content-Security-Policy: default-src 'none'; ") != std::string::npos);
    CHECK(svg.body.find("[off the CPU all the time]") != std::string::npos);

    CHECK(get("format=gif").status == 400);
    CHECK(get("seconds=1").body == "duration and seconds are the same: give one of them\n");
    CHECK(http(exporter.port(), "/api/v1/profile?duration=6m").status == 400);
    CHECK(http(exporter.port(), "/api/v1/profile", "HEAD").status == 405);
    CHECK(http(exporter.port(), "/api/v1/profile", "POST").status == 405);
    CHECK(get("pid=" + std::to_string(process.pid())).status == 200);
    const HttpAnswer stranger = get("pid=1");
    CHECK(stranger.status == 404);
    CHECK(stranger.body ==
          "There is no profile: process 1 is not followed: it is no GPU process, `targets` does "
          "not name it, and none of these has started it.\n");
}

TEST_CASE("profiles are for clients that the exporter knows", "[e2e][beside]") {
    require_bpf();
    const Finished addresses = run({"hostname", "-I"});
    const std::string address = addresses.output.substr(0, addresses.output.find_first_of(" \n"));
    if (address.empty()) {
        missing("an address that is not the loopback's");
        return;
    }
    const Process process = hold_stacks("burn", "1");
    const auto ask_over_network = [&](const Exporter &exporter,
                                      const std::vector<std::string> &more = {}) {
        std::vector<std::string> arguments = more;
        arguments.push_back("http://" + address + ":" + std::to_string(exporter.port()) +
                            "/api/v1/profile?duration=100ms");
        return curl_status(std::move(arguments));
    };
    const std::string everywhere = "web: {listen_address: \":0\"}\n";
    {
        const Exporter exporter(named + everywhere);
        CHECK(ask_over_network(exporter) == "403");
        CHECK(http(exporter.port(), "/api/v1/profile?duration=100ms").status == 200);
        CHECK(http(exporter.port(), "/").body.find("api/v1/profile?") != std::string::npos);
        const Finished page =
            run({"curl", "-s", "http://" + address + ":" + std::to_string(exporter.port()) + "/"});
        CHECK(page.output.find("api/v1/profile?") == std::string::npos);
    }
    {
        const Exporter exporter(named + everywhere, {"env", "GPUSNOOP_WEB_ENABLE_API=true"});
        CHECK(ask_over_network(exporter) == "200");
    }
    {
        const Exporter exporter(named + "profile: {enabled: false}\n");
        const HttpAnswer answer = http(exporter.port(), "/api/v1/profile");
        CHECK(answer.status == 404);
        CHECK(answer.body == "This exporter takes no profiles: profile.enabled is false.\n");
    }
    const Certificates files;
    write_file(files.path("web.yaml"), "basic_auth_users:\n  alice: " + hash + "\n");
    const Exporter exporter(named + everywhere,
                            {"env", "GPUSNOOP_WEB_CONFIG_FILE=" + files.path("web.yaml")});
    CHECK(ask_over_network(exporter) == "401");
    CHECK(ask_over_network(exporter, {"--user", user_and_password}) == "200");
}

// Profiles of a program whose files answer slowly: they end in time, and so does the exporter.

namespace {

using Clock = std::chrono::steady_clock;

// More than the exporter allows itself, as the machine may be busy, and less than the names take.
constexpr std::chrono::seconds at_most{10};

struct TimedAnswer {
    HttpAnswer answer;
    Clock::time_point at;
};

std::future<TimedAnswer> begin_profile(const Exporter &exporter) {
    auto asked = std::async(std::launch::async, [port = exporter.port()] {
        return TimedAnswer{http(port, "/api/v1/profile?duration=1s&format=folded"), Clock::now()};
    });
    exporter.wait_for_log("msg=\"the profile begins");
    return asked;
}

}  // namespace

TEST_CASE("names that take long to read delay neither a profile nor the exporter's end", "[e2e]") {
    require_bpf();
    const e2e::HasSlowMap program;
    const e2e::HasPythons pythons;
    Exporter exporter("functions: {enabled: false}\ntargets: {comms: [stacks, pythons]}\n");
    auto profile = begin_profile(exporter);
    SECTION("the profile ends within the time that another client is told") {
        // Its own time is over.
        std::this_thread::sleep_for(std::chrono::milliseconds(1800));
        const HttpAnswer refused = http(exporter.port(), "/api/v1/profile?duration=100ms");
        const auto asked = Clock::now();
        const TimedAnswer taken = profile.get();
        CHECK(taken.answer.status == 200);
        CHECK(taken.answer.body.find("stacks;") != std::string::npos);
        CHECK(taken.answer.body.find("pythons;") != std::string::npos);
        REQUIRE(refused.status == 409);
        const std::string before = "for at most ";
        const auto most = std::stoi(refused.body.substr(refused.body.find(before) + before.size()));
        const std::chrono::duration<double> took = taken.at - asked;
        WARN("ended after " << took.count() << " s, said to take " << most << " s at most");
        CHECK(took < std::chrono::seconds(most) + std::chrono::seconds(4));
        CHECK(took < at_most);
    }
    SECTION("the exporter ends") {
        std::this_thread::sleep_for(std::chrono::milliseconds(1500));
        const auto told = Clock::now();
        exporter.process().signal(SIGTERM);
        CHECK(exporter.process().wait() == 0);
        const std::chrono::duration<double> took = Clock::now() - told;
        WARN("ended after " << took.count() << " s");
        CHECK(took < at_most);
    }
}
