// Python programs that end inside of a CUDA call, and say themselves at which lines.
#include <signal.h>

#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <catch2/generators/catch_generators_range.hpp>
#include <chrono>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <vector>

#include "tests/harness/exporter.h"
#include "tests/harness/process.h"
#include "tests/harness/python_programs.h"
#include "tests/harness/pythons.h"
#include "tests/harness/trace.h"

using namespace harness;
using ExitJson = nlohmann::json;

namespace {

// The line of the trace about its end.
ExitJson wait_for_end(const Trace &trace, pid_t pid) {
    ExitJson end;
    eventually("its end", [&] {
        for (const ExitJson &line : trace.calls()) {
            end = line.at("pid") == pid ? line : end;
        }
        return !end.is_null();
    });
    return end;
}

struct PythonEnd {
    ExitJson line;
    std::string site;  // that the program has said
};

// The trace needs a moment to find the interpreter.
PythonEnd python_end(const Trace &trace, const std::string &interpreter, const std::string &way,
                     int signal, std::chrono::milliseconds moment) {
    Process program(python_program(interpreter, "hangs/hangs.py", way, {"prlimit", "--core=0"}));
    program.wait_for_output("waiting");
    program.signal(SIGUSR1);
    program.wait_for_output("hanging");
    std::this_thread::sleep_for(moment);
    program.signal(signal);
    (void)program.wait();
    return {wait_for_end(trace, program.pid()), site_in(program.output())};
}

}  // namespace

TEST_CASE("a trace of ends has the line of Python of a last call that did not return or failed",
          "[kernel][modes][slow-by-perf]") {
    require_bpf();
    const std::string mode = GENERATE(from_range(attach_modes()));
    const std::string interpreter = GENERATE(from_range(python_commands()));
    CAPTURE(mode, interpreter);
    // The runtime is attached to before the first program calls it.
    const Process holder({standin("lives"), "name", "holder", "cuda", "wait"});
    holder.wait_for_output("waiting 1");
    Trace trace("exit", attached_by(mode), {});
    struct Way {
        std::string way;
        int signal;
        std::string cause;
    };
    for (const auto &[way, signal, cause] : std::vector<Way>{{"main", SIGKILL, "SIGKILL"},
                                                             {"callback", SIGTERM, "SIGTERM"},
                                                             {"thread", SIGSEGV, "SIGSEGV"},
                                                             {"leave", SIGUSR1, "3"}}) {
        std::chrono::milliseconds moment{100};
        CAPTURE(way);
        eventually("the line", [&] {
            const auto [end, site] = python_end(trace, interpreter, way, signal, moment);
            moment *= 2;
            CAPTURE(end.dump(1), site);
            CHECK(end.at("cause") == cause);
            CHECK(end.at("last_cuda_call") == "cudaDeviceSynchronize");
            CHECK(end.at("last_cuda_call_in_flight") == "true");
            const ExitJson &said = end.at("last_cuda_call_site");
            CHECK((said.is_null() || said == site));
            return !said.is_null();
        });
    }
    // Its last call has failed, or it has returned.
    for (const std::string way : {"refused", "list"}) {
        CAPTURE(way);
        std::chrono::milliseconds moment{100};
        eventually("the line", [&] {
            const LeakingProgram program(interpreter, way);
            program.go_on("called\n");
            std::this_thread::sleep_for(moment);
            moment *= 2;
            program.allocate();
            program.process().signal(SIGKILL);
            const ExitJson end = wait_for_end(trace, program.pid());
            CAPTURE(end.dump(1));
            CHECK(end.at("last_cuda_call") == "cudaMalloc");
            CHECK(end.at("last_cuda_call_in_flight") == "false");
            const ExitJson &said = end.at("last_cuda_call_site");
            CHECK((said.is_null() || said == program.sites().begin()->first));
            return said.is_null() == (way == "list");
        });
    }
    (void)trace.finish();
}
