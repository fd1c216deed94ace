#include "exporter/probes/frame/allocations/allocations_api.h"

#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <memory>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "exporter/base/text/text.h"
#include "exporter/probes/frame/api/list_page.h"

using namespace gpusnoop;
using namespace gpusnoop::probes;
using nlohmann::json;
using symbols::Frame;

namespace {

const Frame runtime{"cudaMalloc", "libcudart.so.12", 0x40};
const Frame leak{"leak_big", "train", 0x10};
const Frame step{"", "libtorch.so", 0x20};
const Frame main_function{"main", "train", 0x30};
const Frame nowhere{"", "", 0x7f0000001234};  // not in any file

SiteAllocations site(std::string label, std::uint64_t bytes, std::uint64_t count,
                     std::vector<Frame> frames) {
    auto stack = std::make_shared<std::vector<SharedFrame>>();
    for (Frame &frame : frames) {
        stack->push_back(std::make_shared<const Frame>(std::move(frame)));
    }
    return {{bytes, count}, {std::move(label), std::move(stack)}};
}

// A process whose sums are those of its sites.
ProcessAllocations allocations_api_process(std::uint32_t pid, std::string comm,
                                           std::vector<SiteAllocations> sites) {
    ProcessAllocations one;
    one.pid = pid;
    one.names.comm = std::move(comm);
    one.exe = "/usr/bin/python3";
    one.sites = std::move(sites);
    for (const SiteAllocations &of : one.sites) {
        one.amount.bytes += of.amount.bytes;
        one.amount.count += of.amount.count;
    }
    return one;
}

// What one request is answered with.
std::string text(const std::vector<ProcessAllocations> &all, const QueryParameters &query = {}) {
    return allocations_page("allocations", all).write(query).value().text;
}

json parsed(const std::vector<ProcessAllocations> &all, const QueryParameters &query = {}) {
    return json::parse(text(all, query));
}

std::vector<std::uint32_t> pids(const json &document) {
    std::vector<std::uint32_t> pids;
    for (const json &one : document["processes"]) {
        pids.push_back(one["pid"]);
    }
    return pids;
}

// A stack of frames, none of them empty, a space, and a number: all that flamegraph.pl takes.
// Not a std::regex, which recurses for every character and overflows its stack on long lines.
bool is_folded(std::string_view stack, std::string_view number) {
    return !stack.empty() && !stack.starts_with(';') && !stack.ends_with(';') &&
           stack.find(";;") == std::string::npos && stack.find(' ') == std::string::npos &&
           !number.empty() && number.find_first_not_of("0123456789") == std::string::npos;
}

// The bytes of all lines. Fails for a line that flamegraph.pl would not take whole.
std::uint64_t folded_sum(const std::string &text) {
    std::istringstream lines(text);
    std::uint64_t sum = 0;
    for (std::string line; std::getline(lines, line);) {
        CAPTURE(line);
        const std::size_t space = std::min(line.rfind(' '), line.size());
        const std::string number = line.substr(std::min(space + 1, line.size()));
        REQUIRE(is_folded(std::string_view(line).substr(0, space), number));
        sum += std::stoull(number);
    }
    return sum;
}

std::string error_of(const QueryParameters &query) {
    const auto written = allocations_page("allocations", {}).write(query);
    return written ? "" : written.error().message;
}

const std::vector<ProcessAllocations> two = {
    allocations_api_process(7, "small", {site("main", 10, 1, {runtime, main_function})}),
    allocations_api_process(8, "train",
                            {site("leak_big < main", 4096, 2, {runtime, leak, step, main_function}),
                             site("", 100, 1, {})})};

}  // namespace

TEST_CASE("allocations as JSON", "[allocations_documents]") {
    auto all = two;
    all[1].names.script = "train.py";
    all[1].names.container = "0123abcd";
    all[1].names.slurm_job_id = "4711";
    all[1].names.user = "alice";
    all[1].uid = 1'000;
    all[1].slurm_step_id = "0";
    all[1].systemd_unit = "slurmstepd.scope";
    all[1].pod_uid = "pod-1";
    const auto written = allocations_page("allocations", all).write({}).value();
    CHECK(written.content_type == "application/json");
    // The order of the members, too, is a promise to those who read it as text.
    CHECK(
        written.text ==
        R"({"processes":[{"pid":8,"comm":"train","script":"train.py","container_id":"0123abcd",)"
        R"("slurm_job_id":"4711","user":"alice","uid":1000,"slurm_step_id":"0",)"
        R"("systemd_unit":"slurmstepd.scope","pod_uid":"pod-1",)"
        R"("exe":"/usr/bin/python3","complete":true,"outstanding_bytes":4196,"outstanding_allocations":3,)"
        R"("sites":[{"site":"leak_big < main","bytes":4096,"allocations":2,"frames":[)"
        R"({"function":"cudaMalloc","module":"libcudart.so.12","offset":64},)"
        R"({"function":"leak_big","module":"train","offset":16},)"
        R"({"function":null,"module":"libtorch.so","offset":32},)"
        R"({"function":"main","module":"train","offset":48}]},)"
        R"({"site":"unknown","bytes":100,"allocations":1,"frames":[]}],"left_out":0},)"
        R"({"pid":7,"comm":"small","script":"","container_id":"","slurm_job_id":"","user":"",)"
        R"("uid":null,"slurm_step_id":"","systemd_unit":"","pod_uid":"","exe":"/usr/bin/python3",)"
        R"("complete":true,"outstanding_bytes":10,"outstanding_allocations":1,"sites":[{"site":"main",)"
        R"("bytes":10,"allocations":1,"frames":[)"
        R"({"function":"cudaMalloc","module":"libcudart.so.12","offset":64},)"
        R"({"function":"main","module":"train","offset":48}]}],"left_out":0}],)"
        R"("left_out":0,"truncated":false})"
        "\n");
    CHECK(allocations_page("allocations", all).name == "allocations");
}

TEST_CASE("allocations of nobody", "[allocations_documents]") {
    CHECK(text({}) == R"({"processes":[],"left_out":0,"truncated":false})"
                      "\n");
    CHECK(text({}, {{"format", "folded"}}).empty());
    const std::vector<ProcessAllocations> idle = {allocations_api_process(7, "idle", {})};
    CHECK(parsed(idle)["processes"][0]["outstanding_bytes"] == 0);
    CHECK(parsed(idle)["processes"][0]["sites"].empty());
    CHECK(text(idle, {{"format", "folded"}}).empty());
}

TEST_CASE("allocations as folded stacks", "[allocations_documents]") {
    const auto written = allocations_page("allocations", two).write({{"format", "folded"}}).value();
    CHECK(written.content_type == "text/plain; charset=utf-8");
    CHECK(written.text ==
          "train;main;libtorch.so+0x20;leak_big;cudaMalloc 4096\n"
          "train;[unknown] 100\n"
          "small;main;cudaMalloc 10\n");
    CHECK(folded_sum(written.text) == 4206);
}

TEST_CASE("what processes put into their names stays text", "[allocations_documents]") {
    const std::string bad = std::string("\xFF\xC3\"\\</script>\n;a b;\x01", 21) + "\xED\xA0\x80";
    const std::vector<ProcessAllocations> all = {
        allocations_api_process(1, bad,
                                {site(bad, 5, 1, {{bad, bad, 1}, {bad, "", 2}, {"", bad, 3}}),
                                 site(bad, 3, 1, {{"", "", 4}})})};
    const std::string document = text(all);
    CHECK(find_invalid_utf8(document) == std::string::npos);
    const json one = json::parse(document)["processes"][0];
    CHECK(
        one["comm"].get<std::string>().starts_with("\xEF\xBF\xBD\xEF\xBF\xBD\"\\</script>\n;a b"));
    CHECK(one["sites"][0]["frames"].size() == 3);

    const std::string folded = text(all, {{"format", "folded"}});
    CHECK(find_invalid_utf8(folded) == std::string::npos);
    CHECK(folded_sum(folded) == 8);
    CHECK(std::ranges::count(folded, '\n') == 2);
    CHECK(std::ranges::count(folded, ';') == 4);
}

TEST_CASE("addresses of a process are not told", "[allocations_documents]") {
    const std::vector<ProcessAllocations> all = {
        allocations_api_process(1, "jit", {site("leak_big", 5, 1, {nowhere, leak})})};
    const json frames = parsed(all)["processes"][0]["sites"][0]["frames"];
    CHECK(frames[0] == json::parse(R"({"function":null,"module":null,"offset":null})"));
    CHECK(frames[1]["offset"] == 16);
    CHECK(text(all, {{"format", "folded"}}) == "jit;leak_big;[unknown] 5\n");
}

TEST_CASE("one can ask for some of the processes", "[allocations_documents]") {
    auto all = two;
    all.push_back(allocations_api_process(9, "train", {}));
    CHECK(pids(parsed(all)) == std::vector<std::uint32_t>{8, 7, 9});
    CHECK(pids(parsed(all, {{"pid", "7"}})) == std::vector<std::uint32_t>{7});
    CHECK(pids(parsed(all, {{"comm", "train"}})) == std::vector<std::uint32_t>{8, 9});
    CHECK(pids(parsed(all, {{"comm", "train"}, {"pid", "9"}})) == std::vector<std::uint32_t>{9});
    CHECK(pids(parsed(all, {{"comm", "trai"}})).empty());
    CHECK(pids(parsed(all, {{"comm", "trai?"}})) == std::vector<std::uint32_t>{8, 9});
    CHECK(pids(parsed(all, {{"pid", "4294967295"}})).empty());
    // What was not asked for is not left out.
    CHECK(parsed(all, {{"pid", "7"}})["truncated"] == false);
    CHECK(folded_sum(text(all, {{"format", "folded"}, {"comm", "small"}})) == 10);
}

TEST_CASE("one can ask for a few sites of each process", "[allocations_documents]") {
    const json document = parsed(two, {{"limit", "1"}});
    CHECK(document["truncated"] == true);
    CHECK(document["left_out"] == 0);
    const json &train = document["processes"][0];
    REQUIRE(train["sites"].size() == 1);
    CHECK(train["sites"][0]["bytes"] == 4096);
    CHECK(train["left_out"] == 1);
    CHECK(train["outstanding_bytes"] == 4196);
    CHECK(document["processes"][1]["left_out"] == 0);

    CHECK(parsed(two, {{"limit", "2"}})["truncated"] == false);
    const json none = parsed(two, {{"limit", "0"}});
    CHECK(none["processes"][0]["sites"].empty());
    CHECK(none["processes"][0]["left_out"] == 2);

    CHECK(text(two, {{"format", "folded"}, {"limit", "1"}}) ==
          "train;main;libtorch.so+0x20;leak_big;cudaMalloc 4096\n"
          "train;[left_out] 100\n"
          "small;main;cudaMalloc 10\n");
}

TEST_CASE("a document stays small however many sites and processes there are",
          "[allocations_documents][bulk]") {
    const std::vector<Frame> deep(128, {std::string(200, '"'), std::string(100, '\\'), 1});
    constexpr std::size_t many_sites = 300;  // of 37 KiB and more: fewer fit
    std::vector<ProcessAllocations> all = {
        allocations_api_process(1, "many_sites",
                                std::vector(many_sites, site("deep", 1000, 1, deep))),
        allocations_api_process(2, "small", {site("main", 7, 1, {main_function})})};
    std::uint64_t expected = many_sites * 1000 + 7;

    SECTION("sites") {
        const json document = parsed(all);
        CHECK(document["truncated"] == true);
        CHECK(document["left_out"] == 0);
        const json &first = document["processes"][0];
        CHECK(first["sites"].size() > 10);
        CHECK(first["sites"].size() + first["left_out"].get<std::size_t>() == many_sites);
        // Its sums are there even so.
        CHECK(document["processes"][1]["outstanding_bytes"] == 7);
        const std::string folded = text(all, {{"format", "folded"}});
        CHECK(folded.find("many_sites;[left_out] ") != std::string::npos);
        CHECK(folded.find("small;") != std::string::npos);
    }
    SECTION("processes") {
        for (std::uint32_t pid = 3; pid < 50'000; pid++) {
            all.push_back(
                allocations_api_process(pid, "p" + std::string(200, 'x'), {site("", 1, 1, {})}));
            expected++;
        }
        const json document = parsed(all);
        CHECK(document["truncated"] == true);
        CHECK(document["processes"].size() > 1000);
        CHECK(document["processes"].size() + document["left_out"].get<std::size_t>() == all.size());
        const std::string folded = text(all, {{"format", "folded"}});
        CHECK(folded.find("\n[left_out] ") != std::string::npos);
    }
    CHECK(text(all).size() <= max_list_page_bytes);
    const std::string folded = text(all, {{"format", "folded"}});
    CHECK(folded.size() <= max_list_page_bytes);
    CHECK(folded_sum(folded) == expected);
}

TEST_CASE("what is wrong with a request for allocations is one clear sentence",
          "[allocations_documents]") {
    CHECK(error_of({{"format", "json"}, {"pid", "1"}, {"comm", "x"}, {"limit", "0"}}).empty());
    CHECK(error_of({{"pids", "1"}}) ==
          "\"pids\" is not a parameter of this page; it has format, pid, comm, script and limit");
    CHECK(error_of({{"format", "xml"}}) == "format must be json or folded, not \"xml\"");
    CHECK(error_of({{"format", ""}}) == "format must be json or folded, not \"\"");
    CHECK(error_of({{"limit", "-1"}}) == "limit must be a number from 0 to 4294967295, not \"-1\"");
    for (const std::string value :
         {"", "0", "-1", "+1", " 1", "1 ", "1x", "0x1", "1.5", "4294967296"}) {
        CHECK(error_of({{"pid", value}}) ==
              "pid must be a number from 1 to 4294967295, not \"" + value + "\"");
    }
    CHECK(error_of({{std::string(4000, '\xFF'), ""}}).size() < 200);
    CHECK(find_invalid_utf8(error_of({{"format", "\xFF"}})) == std::string::npos);
}

TEST_CASE("the document says whose memory may be more") {
    std::vector<ProcessAllocations> all = {allocations_api_process(1, "a", {}),
                                           allocations_api_process(2, "b", {})};
    all[1].is_complete = false;
    const json document = parsed(all);
    CHECK(document["processes"][0]["complete"] == true);
    CHECK(document["processes"][1]["complete"] == false);
}
