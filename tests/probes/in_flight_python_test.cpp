// Calls that hang in Python programs, which say themselves in which functions and lines they are.
#include <csignal>

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <catch2/generators/catch_generators_range.hpp>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/harness/exporter.h"
#include "tests/harness/process.h"
#include "tests/harness/python_programs.h"
#include "tests/harness/pythons.h"

using namespace harness;
using Json = nlohmann::json;

namespace {

// A program of Python that is in cudaDeviceSynchronize, and the exporter that shows it.
struct HangingProgram {
    // Through a command that runs it as its child, or nothing. With more settings of the exporter.
    HangingProgram(const std::string &interpreter, const std::string &way,
                   const std::vector<std::string> &through = {}, const std::string &settings = "")
        : program(python_program(interpreter, "hangs/hangs.py", way, through)),
          exporter((program.wait_for_output("waiting"), "in_flight: {min_age: 1ms}\n" + settings)) {
        exporter.wait_until_attached_to(standin(cudart_of_python));
        pid = std::to_string(program.pid());
        if (!through.empty()) {
            const std::string children = run({"pgrep", "--parent", pid}).output;
            pid = children.substr(0, children.find('\n'));
        }
        REQUIRE(run({"kill", "-USR1", pid}).code == 0);
        program.wait_for_output("hanging");
        places = words_after(program.output(), "at");
        eventually("the call to be in flight", [&] { return !calls().empty(); });
    }
    // Of a stack in the document.
    [[nodiscard]] static std::vector<std::string> places_in(const Json &stack) {
        std::vector<std::string> places;
        for (const Json &frame : stack) {
            if (frame["module"] == "hangs.py") {
                places.push_back(frame["function"]);
            }
        }
        return places;
    }
    [[nodiscard]] Json calls() const {
        const HttpAnswer answer = http(exporter.port(), "/api/v1/in_flight?pid=" + pid);
        REQUIRE(answer.status == 200);
        return Json::parse(answer.body)["in_flight"];
    }

    Process program;
    Exporter exporter;
    std::string pid{};
    std::vector<std::string> places{};  // the innermost first
};

}  // namespace

TEST_CASE("a call that hangs shows the Python functions that made it, with their lines",
          "[in_flight]") {
    require_bpf();
    const std::string interpreter = GENERATE(from_range(python_commands()));
    const std::string way = GENERATE("callback", "thread");
    CAPTURE(interpreter, way);
    const HangingProgram hanging(interpreter, way);
    const Json calls = hanging.calls();
    CAPTURE(calls.dump(1));
    REQUIRE(calls.size() == 1);
    CHECK(calls[0]["function"] == "cudaDeviceSynchronize");
    bool is_inside = true;  // of the call
    for (const Json &frame : calls[0]["stack"]) {
        is_inside = is_inside && frame["function"] != "cudaDeviceSynchronize";
        CHECK_FALSE((is_inside && frame["module"] == "hangs.py"));
    }
    CHECK(HangingProgram::places_in(calls[0]["stack"]) == hanging.places);
    CHECK(calls[0]["site"] == site_in(hanging.program.output()));
    const std::string address =
        "--address=http://127.0.0.1:" + std::to_string(hanging.exporter.port());
    const Finished traced = run({exporter_binary(), "trace", "--in-flight", address});
    CHECK(traced.code == 0);
    const std::string page = http(hanging.exporter.port(), "/").body;
    for (const std::string &place : hanging.places) {
        CAPTURE(place, traced.output);
        CHECK(traced.output.find("    " + place + " hangs.py\n") != std::string::npos);
        // The page has the innermost calls.
        if (!place.starts_with("hangs.py:<") && !place.starts_with("hangs.py:run:")) {
            CHECK(page.find("<li>" + place + " <small>hangs.py</small>") != std::string::npos);
        }
    }
    CHECK(page.find("<code>" + hanging.places.front() + "</code>") != std::string::npos);

    // Nobody can read them any more.
    hanging.program.signal(SIGKILL);
    hanging.exporter.wait_for_log("a thread ended inside a call that had not returned");
    const std::string log = hanging.exporter.log();
    const std::size_t line = log.find("a thread ended inside a call that had not returned");
    const std::string stack = log.substr(line, log.find('\n', line) - line);
    CHECK(stack.find(hanging.places[0] + " < ") != std::string::npos);
    CHECK(stack.find(hanging.places[1]) != std::string::npos);
}

TEST_CASE("why names the line of Python that made a call that hangs", "[in_flight]") {
    require_bpf();
    const HangingProgram hanging(python_commands().front(), "after_work", {},
                                 "host: {time: {enabled: true}}\n");
    const std::string said = " It was called at " + site_in(hanging.program.output()) + ".\n";
    Finished why{};
    eventually("why to say that it hangs, and where", [&] {
        why = run({exporter_binary(), "why", "--pid=" + hanging.pid, "--duration=1s",
                   "--address=http://127.0.0.1:" + std::to_string(hanging.exporter.port())});
        return why.output.find(said) != std::string::npos;
    });
    CHECK(why.code == 0);
    CHECK(why.output.find("\nThe program hangs: the launching thread has been in "
                          "cudaDeviceSynchronize for ") != std::string::npos);
}

TEST_CASE("a hanging Python program with ids of its own, as in a container, shows its functions",
          "[in_flight]") {
    require_bpf();
    const std::string interpreter = GENERATE(from_range(python_commands()));
    CAPTURE(interpreter);
    const HangingProgram hanging(interpreter, "thread",
                                 {"unshare", "--pid", "--fork", "--kill-child"});
    const Json calls = hanging.calls();
    CAPTURE(calls.dump(1));
    REQUIRE(calls.size() == 1);
    CHECK(HangingProgram::places_in(calls[0]["stack"]) == hanging.places);
}
