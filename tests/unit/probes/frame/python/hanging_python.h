// A program of Python that hangs in a call, and says in which functions and lines.
#pragma once

#include <signal.h>

#include <array>
#include <catch2/catch_test_macros.hpp>
#include <cstdint>
#include <cstdio>
#include <sstream>
#include <string>
#include <vector>

namespace gpusnoop::probes {

// A running tests/fakes/hangs/hangs.py.
class HangingPython {
public:
    HangingPython(const std::string &interpreter, const std::string &way)
        : output_(::popen(
              ("exec " + interpreter + " " GPUSNOOP_SOURCE_DIR "/tests/fakes/hangs/hangs.py " + way)
                  .c_str(),
              "r")) {
        REQUIRE(output_ != nullptr);
        std::array<char, 4096> line{};
        while (std::fgets(line.data(), line.size(), output_) != nullptr) {
            std::istringstream words(line.data());
            std::string word;
            words >> word;
            if (word == "process") {
                words >> tgid >> word >> tid;
            }
            while (word == "at" && words >> places.emplace_back()) {
            }
            if (word == "hanging") {
                places.pop_back();
                return;
            }
        }
        FAIL("it does not hang");
    }
    ~HangingPython() {
        // A fork's parent waits for it, and ends then.
        (void)::kill(static_cast<pid_t>(tgid), SIGKILL);
        (void)::pclose(output_);
    }
    HangingPython(const HangingPython &) = delete;
    HangingPython &operator=(const HangingPython &) = delete;

    std::uint32_t tgid = 0;
    std::uint32_t tid = 0;
    std::vector<std::string> places;  // the innermost first

private:
    std::FILE *output_;
};

}  // namespace gpusnoop::probes
