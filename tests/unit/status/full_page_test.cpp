// The page at / when there is more than it shows, or names that want to do harm.
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <chrono>
#include <cstddef>
#include <filesystem>
#include <map>
#include <memory>
#include <regex>
#include <set>
#include <string>
#include <vector>

#include "exporter/status/facts.h"
#include "exporter/status/parts.h"
#include "exporter/status/status_page.h"
#include "tests/harness/counting.h"
#include "tests/harness/full_page.h"

using namespace gpusnoop;
using namespace gpusnoop::status;
using Catch::Matchers::ContainsSubstring;
using harness::count;
using harness::section_of;

namespace {

// How many rows a list shows, and how many it says that there are besides.
std::size_t shown(const std::string &html, const ListKind &list) {
    return count(section_of(html, std::string(list.id)), "<tr><th>");
}

std::size_t left_out(const std::string &html, const ListKind &list) {
    const std::string part = section_of(html, std::string(list.id));
    std::smatch found;
    return std::regex_search(part, found, std::regex("<p>And ([0-9,]+) more"))
               ? std::stoul(std::regex_replace(found[1].str(), std::regex(","), ""))
               : 0;
}

}  // namespace

TEST_CASE("the page has 60 kB at most when every list of it is full") {
    Facts all = harness::full_page_facts();
    const std::string html = page(all);
    CAPTURE(html.size());
    CHECK(html.size() > 45'000);
    CHECK(html.size() <= 60'000);
    for (const ListKind *list : all_lists) {
        CAPTURE(list->id, shown(html, *list));
        CHECK(shown(html, *list) >= 5);
        CHECK(shown(html, *list) <= list->max_rows);
        CHECK(left_out(html, *list) > 0);
    }
    // With shorter names more rows fit.
    for (auto &process : all.overview.memory->processes) {
        process.limit = "";
        process.exe = "/usr/bin/python3";
    }
    CHECK(shown(page(all), processes_list) == 20);
}

TEST_CASE("what a list of the page leaves out is counted, and is not the worst") {
    Facts all = harness::full_page_facts();
    const std::string html = page(all);
    CHECK(shown(html, processes_list) + left_out(html, processes_list) == 500);
    CHECK(shown(html, in_flight_list) + left_out(html, in_flight_list) == 1'000);
    CHECK(shown(html, gpus_list) + left_out(html, gpus_list) == probes::max_overview_gpus);
    CHECK(shown(html, probes_list) + left_out(html, probes_list) == 40);
    CHECK(shown(html, allocations_list) + left_out(html, allocations_list) == 5'000);
    CHECK(shown(html, slow_calls_list) + left_out(html, slow_calls_list) == 100);
    CHECK(shown(html, libraries_list) + left_out(html, libraries_list) == 100);
    CHECK(shown(html, events_list) + left_out(html, events_list) == 40 + 100 + 20);
    CHECK(shown(html, out_of_memory_list) + left_out(html, out_of_memory_list) == 20);
    CHECK(shown(html, job_reports_list) + left_out(html, job_reports_list) == 200);
    // The process that hangs holds the least.
    const std::string processes = section_of(html, "processes");
    CHECK(processes.find("pid 4000019") < processes.find("pid 4000000"));
    CHECK_THAT(html, ContainsSubstring("<b class=\"bad\">Hangs:</b> python3 "
                                       "pretrain_language_model_19.py <small>pid 4000019"));
    // The fullest GPU.
    all.overview.memory->gpus.at(60).bytes++;
    const std::string gpus = section_of(page(all), "gpus");
    CHECK(gpus.find("<tr><th>60<") != std::string::npos);
    CHECK(gpus.find("<tr><th>60<") < gpus.find("<tr><th>0<"));
    // Ends that were asked for come after others, however new they are.
    auto &ends = all.overview.ends->last;
    ends.assign(probes::max_overview_ends, ends.at(0));
    for (auto &end : ends) {
        end.at = all.now;
        end.cause = "0";
        end.is_bad = false;
    }
    CHECK_THAT(section_of(page(all), "events"), ContainsSubstring("Xid 79"));
    CHECK_THAT(section_of(page(all), "events"), !ContainsSubstring("exited with code 0"));
}

TEST_CASE("the runbooks that events of the page link to are there") {
    Facts all = harness::full_page_facts();
    all.overview.out_of_memory->last.resize(1);
    all.overview.ends->last.resize(1);
    auto &xids = all.overview.xids->last;
    xids.resize(4);
    xids.at(1).kind = "application";
    xids.at(2).kind = "information";
    xids.at(3).kind = "fatal";
    xids.at(3).is_switch = true;
    const std::string html = page(all);
    const std::regex link("/docs/(runbooks/Gpusnoop[A-Za-z]*[.]md)\"");
    std::set<std::string> files;
    for (std::sregex_iterator at(html.begin(), html.end(), link), end; at != end; ++at) {
        files.insert((*at)[1]);
    }
    CHECK(files.size() == 6);
    for (const std::string &file : files) {
        CAPTURE(file);
        CHECK(std::filesystem::exists(std::string(GPUSNOOP_SOURCE_DIR) + "/docs/" + file));
    }
}

TEST_CASE("the page stays small and harmless whatever the processes are called") {
    const std::string hostile = "\"'><script src=//evil>&\u202E\xFF</style><img src=x onerror=y>" +
                                std::string(100'000, '"');
    Facts all = harness::full_page_facts();
    all.overview.in_flight.reset();
    all.node = all.version = all.revision = all.config_file = all.telemetry_path = hostile;
    all.last_reload = {
        .successful = false, .last_success = 0, .at = harness::full_page::now, .problem = hostile};
    all.overview_problem = hostile;
    all.probes.assign(40, {.name = hostile,
                           .state = probes::ProbeState::up,
                           .detail = hostile,
                           .functions = 1,
                           .libraries = 1,
                           .attach_failures = {{hostile, 1}},
                           .events = 1,
                           .lost = {{hostile, 1}},
                           .rate = {}});
    // More than are listed; those after them are short, or they would take gigabytes.
    all.libraries.assign(25, {.path = hostile,
                              .build = hostile,
                              .processes = 1,
                              .attached = {{hostile, 1}},
                              .problems = {{hostile, hostile}}});
    all.libraries.resize(10'000);
    auto &memory = *all.overview.memory;
    const processes::ProcessNames hostile_names = {.comm = hostile,
                                                   .script = hostile,
                                                   .container = hostile,
                                                   .slurm_job_id = hostile,
                                                   .user = hostile};
    memory.processes.assign(probes::max_overview_processes, {.pid = 1,
                                                             .names = hostile_names,
                                                             .exe = hostile,
                                                             .gpus = {hostile},
                                                             .outstanding = {1, 1},
                                                             .limit = hostile,
                                                             .verdict = hostile});
    memory.process_count = 10'000;
    memory.sites.assign(probes::max_overview_sites,
                        {.pid = 1, .names = hostile_names, .site = hostile, .outstanding = {1, 1}});
    memory.site_count = 1'000'000;
    probes::SlowCallOverview call = harness::full_page::slow_call();
    call.function = hostile;
    call.names = hostile_names;
    call.error = hostile;
    const auto stack =
        std::make_shared<std::vector<symbols::Frame>>(200, symbols::Frame{hostile, hostile, 0});
    call.stack = stack;
    all.overview.slow_calls->last.assign(probes::max_overview_slow_calls, call);
    all.overview.slow_calls->kept = 100;
    all.overview.job_reports->last.assign(6, {.ended = all.now, .sentence = hostile});
    const std::string html = page(all, 10);
    CHECK(html.size() <= max_page_bytes);
    CHECK(count(html, "<script") == 0);
    CHECK(count(html, "<img") == 0);
    CHECK(count(html, "\u202E") == 0);
    CHECK(count(html, "</style>") == 0);
    // No attribute ends where it should not: whatever is between < and > is ours.
    const std::regex tag(R"re(<(!DOCTYPE html|/?[a-z][a-z0-9]*( [a-z-]+(="[^"<>]*")?)*)>)re");
    std::size_t tags = 0;
    for (auto at = html.find('<'); at != std::string::npos; at = html.find('<', at + 1)) {
        const std::string one = html.substr(at, html.find('>', at) + 1 - at);
        tags++;
        if (one.size() > 4000 || !std::regex_match(one, tag)) {
            FAIL("not a tag of ours: " + one.substr(0, 200));
        }
    }
    CHECK(tags > 300);
    for (const auto &[list, size] :
         std::map<const ListKind *, std::size_t>{{&probes_list, 40},
                                                 {&libraries_list, 10'000},
                                                 {&processes_list, 10'000},
                                                 {&allocations_list, 1'000'000},
                                                 {&slow_calls_list, 100}}) {
        CAPTURE(list->id);
        CHECK(shown(html, *list) > 0);
        CHECK(shown(html, *list) + left_out(html, *list) == size);
    }
    CHECK_THAT(html, ContainsSubstring("and 194 more</details>"));  // frames
}

TEST_CASE("what has to be escaped makes a text of the page shorter, not longer") {
    CHECK(text_html("a<b>", 10) == "a&lt;b&gt;");
    CHECK(text_html("a<b>", 9) == "a&lt;b");
    CHECK(text_html(std::string(1'000, '"'), 64).size() <= 64);
    CHECK(count(text_html(std::string(1'000, '"'), 64), "&quot;") == 10);
    CHECK(text_html("plain and long", 5) == "plain");
}
