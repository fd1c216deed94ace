// An exporter's page of metrics, and what is none -> GPU programs and their rates.
#include "exporter/cli/top/programs.h"

#include <catch2/catch_test_macros.hpp>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "exporter/cli/top/client/address.h"
#include "exporter/cli/top/metrics_line.h"
#include "exporter/cli/top/programs_view.h"

using namespace gpusnoop::top;

namespace {

const std::string build =
    "gpusnoop_build_info{version=\"1.2.3\",revision=\"x\"} 1\n"
    "process_start_time_seconds 1000\n";
const std::string train =
    R"(comm="python3",script="train.py",container_id="0123456789abcdef",slurm_job_id="17")";

std::string page(const std::string &launches, const std::string &held, const std::string &wait) {
    return build + "# HELP gpusnoop_process_info 1 for each\n# TYPE gpusnoop_process_info gauge\n" +
           "gpusnoop_process_info{" + train + R"(,pid="7",pod_uid="a-b"} 1)" + "\n" +
           "gpusnoop_process_info{" + train + R"(,pid="8",pod_uid="a-b"} 1)" + "\n" +
           "gpusnoop_cuda_memory_outstanding_bytes{" + train +
           R"(,pid="7",gpu="1",memory_kind="device"} )" + held + "\n" +
           "gpusnoop_cuda_memory_outstanding_bytes{" + train +
           R"(,pid="8",gpu="0",memory_kind="async"} 1024)" + "\n" +
           "gpusnoop_cuda_memory_outstanding_bytes{" + train +
           R"(,pid="8",gpu="0",memory_kind="pinned_host"} 5e9)" + "\n" +
           "gpusnoop_cuda_kernel_launches_total{" + train + R"(,kernel="a\"b{",gpu="0"} )" +
           launches + "\n" + "gpusnoop_cuda_launches_unobserved_total{" + train + R"(,gpu="0"} )" +
           launches + "\n" + "gpusnoop_cuda_memcpy_bytes_total{" + train + R"(,gpu="0"} 2048)" +
           "\n" + "gpusnoop_host_launch_thread_seconds_total{" + train +
           R"(,phase="wait",state="poll"} )" + wait + "\n" +
           "gpusnoop_host_launch_thread_seconds_total{" + train +
           R"(,phase="host",state="running"} 10)" + "\n" + "gpusnoop_oldest_call_seconds{" + train +
           R"(,pid="7",function="ncclAllReduce"} 90)" + "\n" +
           // A program that has ended.
           R"(gpusnoop_cuda_kernel_launches_total{comm="gone",script="",gpu="0"} 5)" + "\n";
}

}  // namespace

TEST_CASE("a page of metrics is GPU programs, each of all its processes") {
    const auto before = parse_programs(page("100", "4096", "1"));
    const auto now = parse_programs(page("300", "8192", "3"));
    REQUIRE(before);
    REQUIRE(now);
    CHECK(now->version == "1.2.3");
    CHECK(now->began == 1000);
    const auto rows = compare(*before, *before, *now, 2);
    REQUIRE(rows.size() == 1);
    CHECK(rows[0].key == ProgramKey{"python3", "train.py", "0123456789abcdef", "17"});
    CHECK(rows[0].now.processes == 2);
    CHECK(rows[0].now.gpus == std::set<std::string>{"0", "1"});
    CHECK(rows[0].now.held_bytes == 8192 + 1024);
    CHECK(rows[0].grown_bytes == 4096);
    CHECK(rows[0].launches == 200);
    CHECK(rows[0].copied_bytes == 0);
    CHECK(rows[0].waiting_seconds == 1);
    CHECK(rows[0].launching_seconds == 1);
    const auto lines = table_lines(rows, 10);
    REQUIRE(lines.size() == 2);
    CHECK(lines[1] ==
          "python3 train.py job 17   9.00 KiB   +4.00 KiB        200  100%        0  1m 30s  "
          "0,1         0 B     2  a-b");
    CHECK(head_line("http://node:1", *now, 1060, &rows) ==
          "gpusnoop_exporter 1.2.3 at http://node:1, up 1m 0s, 1 GPU program, 2 processes, 9.00 "
          "KiB held, 0 errors/s");
    CHECK(head_line("http://node:1", *now, 1060, nullptr).ends_with(" held"));
}

TEST_CASE("the program and its most important numbers fit into 80 columns") {
    const std::string job =
        R"(comm="python3",script="a_long_name_of_a_script.py",slurm_job_id="1")";
    const auto sample =
        parse_programs(build + "gpusnoop_process_info{" + job + ",pid=\"1\",pod_uid=\"a-b\"} 1\n");
    const auto rows = compare(*sample, *sample, *sample, 1);
    const auto visible = [&](std::size_t columns) {
        const auto lines = table_lines(rows, 10, columns);
        return std::pair(lines[0].substr(0, columns), lines[1].substr(0, columns));
    };
    const auto [titles, row] = visible(80);
    CHECK(titles.starts_with("program                "));
    CHECK(titles.find(" held       grown launches/s  wait    err/s   hangs") != std::string::npos);
    CHECK(row.starts_with("python3 a_long_name_of "));
    // A wider terminal shows all columns, and more of the name.
    const auto [wide_titles, wide_row] = visible(120);
    CHECK(wide_titles.find(" procs  pod") != std::string::npos);
    CHECK(wide_row.starts_with("python3 a_long_name_of_a"));
    CHECK(visible(160).second.starts_with("python3 a_long_name_of_a_script.py job 1 "));
}

TEST_CASE("programs can be sorted by their errors") {
    const auto errors = [](const std::string &a, const std::string &b) {
        return parse_programs(build + "gpusnoop_process_info{comm=\"a\"} 1\n" +
                              "gpusnoop_process_info{comm=\"b\"} 1\n" +
                              "gpusnoop_cuda_api_errors_total{comm=\"a\"} " + a + "\n" +
                              "gpusnoop_cuda_api_errors_total{comm=\"b\"} " + b + "\n");
    };
    const auto before = errors("50", "10");
    const auto now = errors("50", "30");
    auto rows = compare(*before, *before, *now, 2);
    CHECK(rows[0].key.comm == "a");
    CHECK(head_line("x", *now, 1060, &rows).ends_with(", 10.0 errors/s"));
    sort_by_errors(rows);
    CHECK(rows[0].key.comm == "b");
    CHECK(rows[0].errors == 10);
}

TEST_CASE("below a program is the call site whose memory grew most") {
    const auto sites = [](const std::string &name, const std::string &a, const std::string &b) {
        std::string text;
        for (const auto &[pid, site, bytes] :
             {std::tuple("7", "a.py:f:1 < m.py:main:9", a), std::tuple("7", "b.py:g:2", b),
              std::tuple("8", "b.py:g:2", b)}) {
            text += "gpusnoop_" + name + "_memory_site_outstanding_bytes{" + train + ",pid=\"" +
                    pid + "\",site=\"" + site + "\"} " + bytes + "\n";
        }
        return text;
    };
    const auto sample = [&](const std::string &more) {
        return *parse_programs(page("1", "4096", "1") + more);
    };
    const auto below = [](const ProgramsSample &first, const ProgramsSample &now) {
        const auto lines = table_lines(compare(first, first, now, 1), 10);
        return lines.size() == 3 ? lines[2] : "";
    };
    const auto first = sample(sites("cuda", "5000", "100"));
    // Of both of its processes.
    CHECK(below(first, sample(sites("cuda", "6000", "612"))) == "    +1.00 KiB at b.py:g:2");
    CHECK(below(first, sample(sites("cuda", "9096", "612"))) ==
          "    +4.00 KiB at a.py:f:1 < m.py:main:9");
    CHECK(below(first, first).empty());
    CHECK(below(first, sample(sites("cuda", "4000", "100"))).empty());
    // One that the first page did not have.
    CHECK(below(sample(""), sample(sites("cuda", "2048", "1"))) ==
          "    +2.00 KiB at a.py:f:1 < m.py:main:9");
    // Tensors' lines are the better answer.
    CHECK(below(sample(sites("torch", "0", "0") + sites("cuda", "0", "0")),
                sample(sites("torch", "0", "512") + sites("cuda", "4096", "0"))) ==
          "    +1.00 KiB at b.py:g:2");
    // The rest of estimates is no line.
    const auto rest = [&](const std::string &bytes) {
        return "gpusnoop_torch_memory_site_outstanding_bytes{" + train +
               ",pid=\"7\",site=\"[not sampled]\"} " + bytes + "\n";
    };
    CHECK(below(sample(rest("0") + sites("cuda", "0", "0")),
                sample(rest("8192") + sites("cuda", "4096", "0"))) ==
          "    +4.00 KiB at a.py:f:1 < m.py:main:9");
}

TEST_CASE("what a page of metrics lacks is not shown, and what is none is an error") {
    const auto bare = parse_programs(build + "gpusnoop_process_info{comm=\"a\",pid=\"1\"} 1\n");
    REQUIRE(bare);
    const auto rows = compare(*bare, *bare, *bare, 1);
    REQUIRE(rows.size() == 1);
    const std::string line = table_lines(rows, 10)[1];
    CAPTURE(line);
    CHECK(line.starts_with("a "));
    CHECK(line.find("     -        0       -  -           0 B     1  -") != std::string::npos);
    CHECK(table_lines(rows, 0).size() == 1);
    CHECK_FALSE(parse_programs(""));
    CHECK_FALSE(parse_programs("node_exporter_build_info{version=\"1\"} 1\n"));
    CHECK_FALSE(parse_programs("<!DOCTYPE html>\n<p>\"{}\" {,} {a=\"\n"));
}

TEST_CASE("texts of a page of metrics cannot reach the terminal as commands") {
    const auto sample = parse_programs(
        build + "gpusnoop_process_info{comm=\"\033[2J\",script=\"a\\nb\",pod_uid=\"\033c\"} 1\n");
    REQUIRE(sample);
    for (const std::string &line : table_lines(compare(*sample, *sample, *sample, 1), 5)) {
        CHECK(line.find('\033') == std::string::npos);
        CHECK(line.find('\n') == std::string::npos);
    }
}

TEST_CASE("lines of metrics are read as they are written") {
    const auto line = parse_metrics_line(R"(a_b{x="1,\"}",y="\\\n"} 1.5e3 1700000000000)");
    REQUIRE(line);
    CHECK(line->name == "a_b");
    CHECK(line->label("x") == "1,\"}");
    CHECK(line->label("y") == "\\\n");
    CHECK(line->label("z").empty());
    CHECK(line->value == 1500);
    CHECK(parse_metrics_line("plain 3")->value == 3);
    for (const char *const wrong :
         {"", "# HELP a b", "a", "a{", "a{x", "a{x=\"", "a{x=\"1\"", "a{} x"}) {
        CAPTURE(wrong);
        CHECK_FALSE(parse_metrics_line(wrong));
    }
}

TEST_CASE("a view of programs says what is wrong, and starts over after a restart") {
    ProgramsView view({.host = "node", .port = 1, .path = {}}, "/numbers");
    CHECK(view.target() == "/numbers");
    const auto take = [&](const std::string &body, int status = 200) {
        view.take(gpusnoop::Result<Answer>(Answer{status, body}));
    };
    CHECK(view.head() == "gpusnoop_exporter at http://node:1");
    take("", 404);
    CHECK(view.problem().find("has no /numbers") != std::string::npos);
    CHECK_FALSE(view.answers());
    take(page("1", "1", "1"));
    CHECK(view.problem().empty());
    CHECK_FALSE(view.lines(5));
    take(page("2", "1", "1"));
    CHECK(view.lines(5));
    take(R"({"in_flight":[]})");  // one call hangs
    std::string later = page("0", "1", "1");
    later.replace(later.find(" 1000\n"), 6, " 2000\n");
    take(later);
    CHECK(view.problem() == "http://node:1 was restarted: its counters begin at 0");
    CHECK_FALSE(view.lines(5));
    take("", 401);
    CHECK(view.problem().find("login") != std::string::npos);
}

TEST_CASE("a view of programs asks where a call hangs, and shows it below its program") {
    ProgramsView view({.host = "node", .port = 1, .path = {}}, "/numbers");
    const auto take = [&](const std::string &body, int status = 200) {
        view.take(gpusnoop::Result<Answer>(Answer{status, body}));
    };
    const auto below = [&] {
        const auto lines = view.lines(5);
        REQUIRE(lines);
        return lines->size() == 3 ? lines->back() : "";
    };
    take(page("1", "1", "1"));
    CHECK_FALSE(view.wants_more());
    take(page("2", "1", "1"));
    REQUIRE(view.wants_more());
    CHECK(view.target() == "/api/v1/in_flight?limit=256");
    const auto calls = [](const std::string &script) {
        const auto call = [&](const std::string &function, const std::string &site) {
            return R"({"pid":7,"comm":"python3","container_id":"0123456789abcdef","slurm_job_id":"17","script":")" +
                   script + R"(","function":")" + function + R"(","site":)" + site + "}";
        };
        return R"({"in_flight":[)" + call("cudaFree", R"("t.py:f:3\u001b < t.py:main:9")") + "," +
               call("cudaMalloc", "null") + "]}";
    };
    take(calls("train.py"));
    CHECK_FALSE(view.wants_more());
    CHECK(view.target() == "/numbers");
    CHECK(below().starts_with("    hangs in cudaFree at t.py:f:3"));
    CHECK(below().find('\033') == std::string::npos);
    take(page("3", "1", "1"));
    take(calls("other.py"));
    CHECK(below().empty());
    // Who may not read that page, or gets anything else, has the table.
    for (const auto &[status, body] : {std::pair(403, ""), std::pair(200, "{"),
                                       std::pair(200, R"({"in_flight":[{"comm":7}]})")}) {
        take(page("4", "1", "1"));
        take(body, status);
        CHECK(view.problem().empty());
        CHECK(below().empty());
    }
}
