// What is said about a wrong `functions:` block, and that what is made to break its reader does
// not.
#include <catch2/catch_test_macros.hpp>
#include <string>
#include <vector>

#include "tests/unit/config/problems.h"

using gpusnoop::test::problems;

namespace {

// About a group with these keys, without the place, which is always in line 2.
std::string of_group(const std::string &keys) {
    const std::string message = problems("functions: {groups: {own:\n{" + keys + "}}}");
    REQUIRE(message.starts_with("c.yaml:2:"));
    constexpr std::string_view kPath = "functions.groups.own";
    const std::size_t path = message.find(kPath);
    REQUIRE(path != std::string::npos);
    return message.substr(path + kPath.size() + 1);
}

std::string of_key(const std::string &key) {
    return of_group("libraries: [a], functions: [f], " + key);
}

std::string of_library(const std::string &library) {
    return of_group("functions: [f], libraries: [" + library + "]");
}

std::string of_function(const std::string &function) {
    return of_group("libraries: [a], functions: [" + function + "]");
}

}  // namespace

TEST_CASE("a mistake in functions is reported with its place and its key") {
    struct Case {
        std::string text;
        std::string message;
    };
    const std::vector<Case> cases = {
        {"functions: {atach: auto}",
         R"(c.yaml:1:13: functions.atach: unknown key, did you mean "attach"?)"},
        {"functions: {attach: fentry}",
         R"(c.yaml:1:21: functions.attach: expected auto, session, multi or perf, got "fentry")"},
        {"functions: {ring_bytes: 5000}",
         "c.yaml:1:25: functions.ring_bytes: must be a power of two, is 5000"},
        {"functions: {drain_interval: 100us}",
         "c.yaml:1:29: functions.drain_interval: expected a duration such as 500ms, 10s, 5m or 1h, "
         "got \"100us\""},
        {"functions: {max_functions: 0}",
         "c.yaml:1:28: functions.max_functions: must be between 1 and 65536, is 0"},
        {"functions: {groups: [cuda]}",
         "c.yaml:1:21: functions.groups: expected a mapping of keys to values, got a list"},
        {"functions: {groups: {cuda: off}}",
         "c.yaml:1:28: functions.groups.cuda: expected a mapping of keys to values, got \"off\""},
        {"functions: {groups: {cuda: {}, cuda: {}}}",
         "c.yaml:1:32: functions.groups.cuda: given twice, first on line 1"},
        {"functions: {groups: {CUDA: {}}}",
         "c.yaml:1:22: functions.groups: \"CUDA\" is not a name for a group: write 1 to 32 of a-z, "
         "0-9 and _, a letter first"},
        {"functions:\n  groups:\n    custom:\n",
         "c.yaml:3:5: functions.groups.custom: has no libraries and no functions, and no group of "
         "this name is there by default"},
        {"functions:\n  groups:\n    cubls: {slow_threshold: 1s}\n",
         "c.yaml:3:12: functions.groups.cubls: has no libraries and no functions, and no group of "
         "this name is there by default, did you mean \"cublas\"?"},
        {"functions:\n  groups:\n    own: {libraries: [a]}\n",
         "c.yaml:3:10: functions.groups.own: has no functions, and no group of this name is there "
         "by default"},
        {"functions:\n  groups:\n    own: {functions: [a]}\n",
         "c.yaml:3:10: functions.groups.own: has no libraries, and no group of this name is there "
         "by default"},
        {"functions:\n  groups:\n    nccl:\n      functions:\n        - ncclSend\n"
         "        - {name: x, symbol: 'a[b', slow: 1s, arguments: [7]}\n",
         "c.yaml:6:29: functions.groups.nccl.functions[1].symbol: \"a[b\" has a [ without its ]: "
         "write [[] for the character itself\n"
         "c.yaml:6:36: functions.groups.nccl.functions[1].slow: unknown key\n"
         "c.yaml:6:58: functions.groups.nccl.functions[1].arguments[0]: must be between 1 and 6, "
         "is 7"},
    };
    for (const Case &c : cases) {
        INFO(c.text);
        CHECK(problems(c.text) == c.message);
    }
}

TEST_CASE("wrong keys of a group are reported") {
    CHECK(of_key("librares: [b]") == "librares: unknown key, did you mean \"libraries\"?");
    CHECK(of_key("slow_treshold: 1s") ==
          "slow_treshold: unknown key, did you mean \"slow_threshold\"?");
    CHECK(of_key("errors: cudaErorr") ==
          "errors: expected cudaError, cublasStatus, cudnnStatus, ncclResult, errno, nonzero, null "
          "or none, got \"cudaErorr\"");
    for (const std::string nothing : {"errors: ", "errors: ~", "errors: , arguments: []"}) {
        CHECK(of_key(nothing).ends_with("nonzero, null or none, got nothing"));
    }
    CHECK(of_key("endings: return") == "endings: expected auto, exits or returns, got \"return\"");
    CHECK(of_key("entry_only: 1") == "entry_only: expected true or false, got \"1\"");
    const std::string zero =
        "slow_threshold: 0 would make every call slow: leave it out, or write none, to have no "
        "slow calls";
    CHECK(of_key("slow_threshold: 0") == zero);
    CHECK(of_key("slow_threshold: '0'") == zero);
    CHECK(of_key("slow_threshold: 0ms") == zero);
    for (const std::string wrong :
         {"-5ms", "5", "1.5ms", "5 ms", "", "9223372037s", "99999999999999999999ns", "fast"}) {
        CHECK(of_key("slow_threshold: '" + wrong + "'") ==
              "slow_threshold: expected a duration such as 500us, 10ms or 1s, or none, got \"" +
                  wrong + "\"");
    }
    CHECK(of_key("slow_threshold: 25h") == "slow_threshold: must be 24h at most, is 25h");
    CHECK(of_key("buckets: 1ms") == "buckets: expected a list of durations, got \"1ms\"");
    CHECK(of_key("buckets: []") == "buckets: must name 1 to 64 bounds, names 0");
    CHECK(of_key("buckets: [1ms, 10us]") ==
          "buckets[1]: must be above the bound before it, 1ms, is 10us");
    CHECK(of_key("buckets: [1ms, 1000us]") ==
          "buckets[1]: must be above the bound before it, 1ms, is 1ms");
    CHECK(of_key("buckets: [0us, 1ms]") == "buckets[0]: must be above 0: every call takes longer");
    CHECK(of_key("buckets: [none]") ==
          "buckets[0]: expected a duration such as 500us, 10ms or 1s, got \"none\"");
    CHECK(of_key("arguments: 1") == "arguments: expected a list of argument positions, got \"1\"");
    CHECK(of_key("arguments: [0]") == "arguments[0]: must be between 1 and 6, is 0");
    CHECK(of_key("arguments: [2, 2]") == "arguments[1]: 2 is given twice");
    CHECK(of_key("arguments: ['2']") ==
          "arguments[0]: expected a whole number, got the text \"2\": remove the quotes");
    CHECK(of_key("arguments: [1, 2, 3, 4, 5, 6, 1]") ==
          "arguments: must name 0 to 6 arguments, names 7");
    CHECK(of_key("exclude: ['f[']") ==
          "exclude[0]: \"f[\" has a [ without its ]: write [[] for the character itself");
    CHECK(of_key("exclude: [f, f]") == "exclude[1]: given twice, first on line 2");
}

TEST_CASE("wrong libraries are reported") {
    CHECK(of_library("") == "libraries: must name 1 to 64 files, names 0");
    CHECK(of_group("functions: [f], libraries: a.so") ==
          "libraries: expected a list of file names, got \"a.so\"");
    CHECK(of_library("{name: a}") == "libraries[0]: expected a file name or path, got a mapping");
    CHECK(of_library("''") == "libraries[0]: must be 1 to 255 bytes long, is 0");
    CHECK(of_library(std::string(256, 'a')) == "libraries[0]: must be 1 to 255 bytes long, is 256");
    CHECK(of_library("/" + std::string(4095, 'a')) ==
          "libraries[0]: must be 1 to 4095 bytes long, is 4096");
    CHECK(of_library("lib/a.so") ==
          "libraries[0]: \"lib/a.so\" is neither a file name nor a path that begins with /");
    CHECK(of_library("a.so, a.so") == "libraries[1]: given twice, first on line 2");
    CHECK(of_library("\"a\\0b\"") == "libraries[0]: holds a control character");
    CHECK(of_library("'a[.so'") ==
          "libraries[0]: \"a[.so\" has a [ without its ]: write [[] for the character itself");
    for (const std::string all : {"*", "/opt/*", "/opt/a/?*"}) {
        CHECK(of_library("'" + all + "'") == "libraries[0]: \"" + all +
                                                 "\" means every file: say something of the file's "
                                                 "name");
    }
    for (const std::string path : {"/usr/lib/", "/usr//lib/a", "/./a", "/usr/../a"}) {
        CHECK(of_library(path) ==
              "libraries[0]: \"" + path +
                  "\" can be no mapped file: write the path as /proc/PID/maps does, without //, "
                  "/./, /../ and a / at the end");
    }
}

TEST_CASE("wrong functions are reported") {
    CHECK(of_function("") == "functions: must name 1 to 10000 functions, names 0");
    CHECK(of_function("[f]") ==
          "functions[0]: expected a symbol, or a mapping with one, got a list");
    CHECK(of_function("~") ==
          "functions[0]: expected a symbol, or a mapping with one, got nothing");
    CHECK(of_function("{}") == "functions[0]: has no symbol: every function needs one");
    CHECK(of_function("{symbl: f}") ==
          "functions[0]: has no symbol: every function needs one\n"
          "c.yaml:2:31: functions.groups.own.functions[0].symbl: unknown key, did you mean "
          "\"symbol\"?");
    CHECK(of_function("''") == "functions[0]: must be 1 to 16384 bytes long, is 0");
    CHECK(of_function(std::string(16385, 'f')) ==
          "functions[0]: must be 1 to 16384 bytes long, is 16385");
    CHECK(of_function("a b") ==
          "functions[0]: holds a space or a control character, which no symbol does");
    CHECK(of_function("{symbol: \"a\\0b\"}") ==
          "functions[0].symbol: holds a space or a control character, which no symbol does");
    CHECK(of_function("cudaFree@@libcudart.so.13") ==
          "functions[0]: \"cudaFree@@libcudart.so.13\" has a version: leave out the @ and what is "
          "behind it");
    CHECK(of_function("'at::matmul'") ==
          "functions[0]: \"at::matmul\" is a C++ name: write the mangled symbol, which nm -D "
          "prints, such as _ZN5torch2nn10LinearImpl7forwardERKN2at6TensorE");
    for (const std::string path : {"lib/f", "lib/f*"}) {
        CHECK(of_function("'" + path + "'") ==
              "functions[0]: \"" + path +
                  "\" has a /, which names of functions do not: files belong under libraries, and "
                  "a symbol that has one is written {symbol: ...}");
    }
    CHECK(of_function("{name: '', symbol: f}") ==
          "functions[0].name: must be 1 to 128 bytes long, is 0");
    CHECK(of_function("{symbol: f, name: " + std::string(129, 'n') + "}") ==
          "functions[0].name: must be 1 to 128 bytes long, is 129");
    CHECK(of_function("{symbol: f, name: \"a\\nb\"}") ==
          "functions[0].name: holds a control character");
    CHECK(of_function("f, f") == "functions[1]: \"f\" is given twice, first on line 2");
    CHECK(of_function("f, {symbol: f, name: g}") ==
          "functions[1]: \"f\" is given twice, first on line 2");
    CHECK(of_function("f, {name: f, symbol: _Z1fv}") ==
          "functions[1]: the name \"f\" is that of another function already, first on line 2");
    CHECK(of_function("{name: n, symbol: f}, {name: n, symbol: g, slow_threshold: 1s}") ==
          "functions[1]: the name \"n\" is that of another function already, first on line 2");
}

TEST_CASE("what is between USDT probes needs two of one provider, and is no function") {
    const auto of_call = [](const std::string &call) {
        return of_group("libraries: [a], usdt: [{" + call + "}]");
    };
    const std::string needs =
        ": a call between USDT probes needs provider, begin and end, as `readelf -n` prints them";
    CHECK(of_call("provider: p, end: e") == "usdt[0]: has no begin" + needs);
    CHECK(of_call("provider: p, begin: b") == "usdt[0]: has no end" + needs);
    CHECK(of_call("begin: b, end: e") == "usdt[0]: has no provider" + needs);
    CHECK(of_call("provider: p, begin: b, end: b") ==
          "usdt[0].end: is the probe of begin: a call needs two");
    CHECK(of_call("provider: p, begin: b, end: e, symbol: f") ==
          "usdt[0].symbol: is for functions: a call between USDT probes has begin and end instead");
    CHECK(of_call("provider: p, begin: b, end: e, errors: nonzero") ==
          "usdt[0].errors: has no effect: what is between two USDT probes is no function");
    CHECK(of_call("provider: \"p q\", begin: b, end: e") ==
          "usdt[0].provider: \"p q\" is no name of a USDT probe: these have letters, digits, _ and "
          "-, as `readelf -n` prints them");
    CHECK(of_call("provider: p, begin: b, end: e}, {provider: p, begin: b, end: f") ==
          "usdt[1]: another call begins at \"p:b\" already, first on line 2");
    CHECK(of_group("libraries: [a], functions: [b], usdt: [{provider: p, begin: b, end: e}]") ==
          "usdt: the name \"b\" is that of a function of the group already");
}

TEST_CASE("what has no effect is reported") {
    const std::string no_duration =
        "has no effect: with entry_only, calls have no duration, as only their start is seen";
    CHECK(of_function("{symbol: f, entry_only: true, slow_threshold: 1s}") ==
          "functions[0].slow_threshold: " + no_duration);
    CHECK(of_function("{symbol: f, entry_only: true, buckets: [1s]}") ==
          "functions[0].buckets: " + no_duration);
    CHECK(of_function("{symbol: f, entry_only: true, errors: errno}") ==
          "functions[0].errors: has no effect: with entry_only, calls have no result, as only "
          "their start is seen");
    CHECK(of_function("{symbol: f, entry_only: true, endings: exits}") ==
          "functions[0].endings: has no effect: with entry_only, no end of a call is seen");
    CHECK(of_function("{symbol: f, entry_only: true, arguments: [1]}") ==
          "functions[0].arguments: has no effect: arguments are recorded with slow calls, and with "
          "entry_only no call is slow");
    CHECK(of_group("entry_only: true, libraries: [a], functions: [{symbol: f, buckets: [1s]}]") ==
          "functions[0].buckets: " + no_duration);
    CHECK(of_key("entry_only: true, slow_threshold: 1s") == "slow_threshold: " + no_duration);
    CHECK(of_group("match_exports: true, libraries: [a], functions: [\"f*\"]") ==
          "match_exports: has no effect: the group names no function exactly, but only by globs");
    CHECK(problems("functions: {groups: {own: {match_exports: true, libraries: [a], functions: "
                   "[\"f*\", g]}}}")
              .empty());
    CHECK(problems("functions: {groups: {own: {libraries: [a], functions: [{symbol: f, entry_only: "
                   "true, slow_threshold: none, errors: none, arguments: []}]}}}")
              .empty());
}

TEST_CASE("too much of anything is one sentence", "[bulk]") {
    std::string text = "functions:\n  groups:\n";
    for (int i = 0; i < 100; ++i) {
        text += "    g" + std::to_string(i) + ": {libraries: [a], functions: [f]}\n";
    }
    CHECK(problems(text) ==
          "c.yaml:3:5: functions.groups: there can be 64 groups at most, with those that are there "
          "by default");
    text = "f, ";
    while (text.size() < 40'000) {
        text += text;
    }
    CHECK(of_function(text).starts_with("functions: must name 1 to 10000 functions, names "));
    // Names for lists and texts multiply what a file of 1 MiB can say.
    text = "functions: &list [";
    for (int i = 0; i < 10'000; ++i) {
        text += "{symbol: f" + std::to_string(i) + ", slow: 1, errors: x}, ";
    }
    std::string groups;
    for (int i = 0; i < 5; ++i) {
        groups += "g" + std::to_string(i) +
                  ": {libraries: [a], functions: " + (i == 0 ? text.substr(11) + "]" : "*list") +
                  "}\n, ";
    }
    CHECK(problems("functions: {groups: {" + groups + "}}").ends_with("more problems"));
}
