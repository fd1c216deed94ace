// `gpusnoop_exporter top` on GPU programs.
#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <iterator>
#include <sstream>
#include <string>
#include <vector>

#include "tests/e2e/api/terminal.h"
#include "tests/harness/exporter.h"

using namespace harness;

namespace {

std::vector<std::string> words_of(const std::string &line) {
    std::istringstream words(line);
    return {std::istream_iterator<std::string>(words), {}};
}

}  // namespace

TEST_CASE("top begins with GPU programs, and shows functions when asked", "[e2e]") {
    require_bpf();
    const Exporter exporter(without_company("functions: {enabled: true}\n"));
    const Process holder({standin("workload"), "--threads", "1", "--rate", "1", "--seconds", "600",
                          "--name", "holder"});
    exporter.wait_until_attached_to(standin("12/libcudart.so.12"));
    const Process program({standin("workload"), "--threads", "2", "--rate", "500", "--seconds",
                           "600", "--name", "train"});
    eventually("the program", [&] {
        return exporter.scrape().sum("gpusnoop_cuda_kernel_launches_total", {{"comm", "train"}}) >
               100;
    });
    const Finished once =
        run(top_programs(address_of(exporter), {"--once", "--interval=2s", "--rows=5"}));
    INFO(once.output);
    CHECK(once.code == 0);
    std::istringstream lines(once.output);
    std::vector<std::string> all;
    for (std::string line; std::getline(lines, line);) {
        all.push_back(line);
    }
    REQUIRE(all.size() == 4);
    CHECK(all[0].find(", 2 GPU programs, 2 processes, ") != std::string::npos);
    CHECK(words_of(all[1]) == words_of("program held grown launches/s wait err/s hangs GPU "
                                       "copied/s procs pod"));
    const auto row = std::ranges::find_if(
        all, [](const std::string &line) { return line.starts_with("train "); });
    REQUIRE(row != all.end());

    InTerminal terminal(top_programs(address_of(exporter), {"--interval=100ms"}), 24, 80);
    terminal.wait_for("launches/s");
    std::vector<std::string> screen;
    eventually("the program on the screen", [&] {
        screen = terminal.screen();
        return std::ranges::any_of(
            screen, [](const std::string &line) { return line.starts_with("train "); });
    });
    CHECK(screen[1] == "q quit  p programs  f functions  ? help");
    CHECK(screen[2].find("   hangs") != std::string::npos);
    CHECK(std::ranges::all_of(screen, [](const std::string &line) { return line.size() <= 80; }));
    terminal.type("?");
    terminal.wait_for("calls that return an error");
    const std::size_t helped = terminal.output().size();
    terminal.type(" ");
    terminal.wait_for("launches/s ", helped);
    terminal.type("f");
    terminal.wait_for(" calls/s    err/s   slow/s");
    const std::size_t functions = terminal.output().size();
    terminal.type("p");
    terminal.wait_for("launches/s", functions);
    terminal.type("q");
    CHECK(terminal.wait() == 0);
    CHECK(terminal.output().ends_with(leave));

    const Process fails({standin("workload"), "--threads", "1", "--rate", "50", "--failures",
                         "--seconds", "600", "--name", "fails"});
    eventually("errors", [&] {
        return exporter.scrape().sum("gpusnoop_cuda_api_errors_total", {{"comm", "fails"}}) > 10;
    });
    const Finished errors =
        run(top_programs(address_of(exporter), {"--once", "--interval=1s", "--sort=errors"}));
    CAPTURE(errors.output);
    CHECK(errors.output.find("held, 0 errors/s") == std::string::npos);
    std::istringstream table(errors.output);
    std::string line;
    for (int i = 0; i < 3; i++) {
        std::getline(table, line);
    }
    CHECK(line.starts_with("fails "));
}
