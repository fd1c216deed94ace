// What the tests of functions rely on: that the library has the symbols and the instructions that
// they are about, whatever compiled it, and that its own count is right.
#include <signal.h>

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <catch2/generators/catch_generators_range.hpp>
#include <filesystem>
#include <map>
#include <sstream>

#include "exporter/config/config.h"
#include "exporter/probes/frame/registry.h"
#include "exporter/probes/functions/settings.h"
#include "tests/harness/calls_truth.h"
#include "tests/harness/counting.h"
#include "tests/harness/cuda_truth.h"
#include "tests/harness/exporter.h"

using namespace harness;

namespace {

std::string library() {
    return standin("libcalls.so.1");
}

// Addresses by symbol.
std::map<std::string, std::string> symbols_of_libraries(std::vector<std::string> command) {
    command.push_back(library());
    const Finished nm = run(std::move(command));
    REQUIRE(nm.code == 0);
    std::map<std::string, std::string> found;
    std::istringstream lines(nm.output);
    for (std::string line; std::getline(lines, line);) {
        std::istringstream words(line);
        std::string address;
        std::string kind;
        std::string symbol;
        if (words >> address >> kind >> symbol && (kind == "T" || kind == "W" || kind == "t")) {
            found[symbol] = address;
        }
    }
    return found;
}

}  // namespace

TEST_CASE("the library of functions has every symbol that the tests configure") {
    const auto exported = symbols_of_libraries({"nm", "-D", "--defined-only"});
    for (const CallsFunction &function : calls_functions()) {
        CAPTURE(function.name);
        CHECK(exported.contains(function.symbol));
    }
    CHECK(exported.at("_ZN5calls6ObjectC1El") == exported.at("_ZN5calls6ObjectC2El"));
    CHECK(exported.at("_ZN5calls6ObjectD1Ev") == exported.at("_ZN5calls6ObjectD2Ev"));
}

#if defined(__x86_64__) && !defined(__clang__)
namespace {

// The instructions of a function, one in each line.
std::string code_of(const std::string &symbol) {
    const Finished objdump =
        run({"objdump", "-d", "--no-show-raw-insn", "--disassemble=" + symbol, library()});
    REQUIRE(objdump.code == 0);
    std::string code;
    std::istringstream lines(objdump.output);
    for (std::string line; std::getline(lines, line);) {
        std::istringstream words(
            line.substr(line.find(':') == std::string::npos ? line.size() : line.find(':') + 1));
        // With one space between words.
        for (std::string word; words >> word;) {
            code += word + ' ';
        }
        code += '\n';
    }
    return code;
}

}  // namespace

TEST_CASE("the library of functions has the jumps that the tests are about") {
    const std::string tail = code_of("_ZN5calls4tailEl");
    CHECK(count(tail, "jmp ") == 1);
    CHECK(count(tail, "<_ZN5calls5plainEl") == 1);
    CHECK(count(tail, "ret \n") == 0);
    const std::string indirect = code_of("_ZN5calls13tail_indirectEl");
    CHECK(count(indirect, "jmp *%") == 1);
    CHECK(count(indirect, "ret \n") == 0);
    CHECK(count(code_of("_ZN5calls10maybe_tailEl"), "jne ") == 1);
    CHECK(count(code_of("_ZN5calls10maybe_tailEl"), "<_ZN5calls5plainEl") == 1);
    CHECK(count(code_of("_ZN5calls4loopEm"), "<_ZN5calls4loopEm> \n") == 1);
    const std::string choose = code_of("_ZN5calls6chooseEjl");
    CHECK(count(choose, "jmp *%") == 1);
    CHECK(count(choose, "ret \n") > 3);
    CHECK(count(code_of("_ZN5calls4failEi"), "ret \n") == 0);
    const auto all = symbols_of_libraries({"nm", "--defined-only"});
    CHECK(all.contains("_ZN5calls6rarelyEl.cold"));
    CHECK(all.contains("_ZN5calls9may_throwEb.cold"));
}
#endif

TEST_CASE("the functions' own count is the same for the same seed, and adds up") {
    const auto mix = [](const std::string &seed) {
        const Finished mixed = run({standin("calls"), "--scenario", "mix_with_leaving", "--threads",
                                    "8", "--iterations", "500", "--seed", seed});
        CHECK(mixed.code == 0);
        return mixed.output;
    };
    const std::string first = mix("7");
    CHECK(without_times(first) == without_times(mix("7")));
    CHECK(without_times(first) != without_times(mix("8")));
    const CallsTruth truth = parse_calls(first);
    CHECK(truth.size() == calls_functions().size());
    for (const auto &[name, count] : truth) {
        CAPTURE(name);
        // These are for calls that are to be slow.
        CHECK((count.entered > 0) == (name != "calls_sleep" && name != "calls::sleep"));
        CHECK(count.entered == count.returned + count.left);
        CHECK(count.inner_ns <= count.outer_ns);
        CHECK(count.slow <= count.slow_at_most);
    }
    CHECK(truth.at("calls_wait").slow > 0);
    CHECK(truth.at("calls::fail").returned == 0);
    CHECK(truth.at("calls::through").left > 0);
    CHECK(truth.at("calls_jump").left > 0);
    CHECK_FALSE(truth.at("calls_dirty").errors.contains(0));
    CHECK(truth.at("calls_status").errors.at(-22) > 0);
    CHECK((truth + truth).at("calls_plain").entered == 2 * truth.at("calls_plain").entered);
}

TEST_CASE("the configurations of the tests are valid") {
    const CallsConfig configs[] = {{},
                                   {.mode = "perf", .entry_only = true},
                                   {.mode = "multi", .slow_threshold = ""},
                                   {.mode = "session", .say_at_entry = false}};
    for (const CallsConfig &config : configs) {
        const std::string text = calls_config(config);
        CAPTURE(text);
        const auto read =
            gpusnoop::config::parse(text, "config.yaml", gpusnoop::probes::setting_blocks());
        REQUIRE(read);
        CHECK_FALSE(read->of<gpusnoop::probes::FunctionsConfig>().groups.at("cuda").enabled);
        const auto &group = read->of<gpusnoop::probes::FunctionsConfig>().groups.at("calls");
        CHECK(group.options.entry_only == config.entry_only);
        std::map<std::string, gpusnoop::probes::ErrorKind> expected;
        for (const auto &function : calls_functions()) {
            // At its entry alone, its jumps to itself cannot be told from calls.
            if (!config.entry_only || function.name != "calls::loop") {
                expected[function.symbol] = function.errors;
            }
        }
        REQUIRE(group.functions.size() == expected.size());
        for (const auto &pattern : group.functions) {
            CAPTURE(pattern.symbol);
            const auto options = options_of(group, pattern);
            CHECK((config.entry_only || options.errors == expected.at(pattern.symbol)));
        }
    }
}

TEST_CASE("lines of the truth that are not whole are refused") {
    CHECK(parse_calls("mix ok\ndone\n").empty());
    CHECK_THROWS(parse_calls("truth calls_plain entered=1 returned=1 left=0\n"));
    CHECK_THROWS(parse_calls("truth calls_other entered=1\n"));
    CHECK_THROWS(parse_calls("truth calls_plain entered\n"));
    const CallsTruth truth = parse_calls(
        "truth calls_open entered=3 returned=2 left=1 error:2=1 slow=0 slow_at_most=1 inner_ns=5 "
        "outer_ns=9\n");
    CHECK(truth.at("calls_open").errors == std::map<std::int64_t, std::uint64_t>{{2, 1}});
    CHECK(truth.at("calls_open").outer_ns == 9);
    using gpusnoop::probes::ErrorKind;
    CHECK(calls_error_name(ErrorKind::errno_value, 2) == "-1");
    CHECK(calls_error_name(ErrorKind::nccl_result, 1) == "ncclUnhandledCudaError");
    CHECK(calls_error_name(ErrorKind::nonzero, -22) == "-22");
    CHECK(calls_error_name(ErrorKind::null, 1) == "null");
    CHECK(calls_error_name(ErrorKind::cuda_error, 600) == "cudaErrorNotReady");
}

// Static functions of stripped libraries, by their debug files.

namespace fs = std::filesystem;

TEST_CASE("a static function of a stripped library is traced by its debug file", "[kernel]") {
    require_bpf();
    const std::string kind = GENERATE("by_id", "by_link", "inside");
    CAPTURE(kind);
    const TemporaryDirectory directory;
    const fs::path library = directory / "libstripped.so.1";
    fs::copy(standin("stripped/" + kind + "/libstripped.so.1"), library);
    if (kind != "inside") {  // this one has its symbols in .gnu_debugdata
        fs::create_directory(directory / ".debug");
        fs::copy(standin("stripped/" + kind + "/libstripped.so.1.debug"),
                 directory / ".debug/libstripped.so.1.debug");
    }
    const Exporter exporter(only_groups("auto") + R"(
    stripped:
      libraries: ["libstripped.so*"]
      functions: ["stripped_*"]
)");
    const Process caller({standin("stripped_caller"), library.string(), "1000"});
    exporter.wait_until_attached_to(library);
    caller.signal(SIGUSR1);
    caller.wait_for_output("done");
    const Labels of = {{"comm", "stripped_caller"}};
    const Page page = exporter.wait_for("gpusnoop_function_calls_total", of, 1001);
    const auto calls = [&](const std::string &function) {
        return page.sum("gpusnoop_function_calls_total",
                        {{"comm", "stripped_caller"}, {"function", function}});
    };
    CHECK(calls("stripped_hidden") == 1000);
    CHECK(calls("stripped_run") == 1);
    CHECK(page.has("gpusnoop_function_duration_seconds_count",
                   {{"comm", "stripped_caller"}, {"function", "stripped_hidden"}}));
    check_account_at_rest(exporter);
}

// C functions of a language whose functions unwind the stack, as those of Rust that panic.

TEST_CASE("a C function of Rust that panics ends as it does untraced", "[kernel][modes]") {
    require_bpf();
    const std::string mode = GENERATE(from_range(attach_modes()));
    CAPTURE(mode);
    const Exporter exporter(only_groups(mode) + R"(
    unwinds:
      libraries: ["libunwinds.so*"]
      functions: [unwinds_call]
)");
    const Process program({standin("unwinds"), "1000"});
    exporter.wait_until_attached_to(standin("libunwinds.so.1"));
    program.wait_for_output("waiting");
    program.signal(SIGUSR1);
    program.wait_for_output("done, caught 1000, sum 500500");
    const Labels of = {{"comm", "unwinds"}, {"function", "unwinds_call"}};
    const Page page = exporter.wait_for("gpusnoop_function_calls_total", of, 1000);
    CHECK(page.sum("gpusnoop_function_duration_seconds_count", of) == 1000);
    check_account_at_rest(exporter);
}
