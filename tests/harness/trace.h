// A running `gpusnoop_exporter trace`, whose lines go to a file, and its log to the process's
// output.
#pragma once

#include <signal.h>

#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "tests/harness/exporter.h"
#include "tests/harness/process.h"

namespace harness {

inline std::string quoted(const std::string &word) {
    return "'" + word + "'";
}

class Trace {
public:
    // `what` is the subcommand, `config` is YAML. JSON, unless `arguments` choose another format.
    // Returns when all existing files are attached.
    Trace(const std::string &what, const std::string &config,
          const std::vector<std::string> &arguments)
        : process_({"sh", "-c", command(what, config, arguments)}) {
        process_.wait_for_output("msg=\"tracing\"");
    }

    Process &process() { return process_; }
    [[nodiscard]] std::string lines() const { return read_file(directory_ / "lines"); }
    // The objects of all whole lines.
    [[nodiscard]] std::vector<nlohmann::json> calls() const {
        std::vector<nlohmann::json> calls;
        const std::string text = lines();
        std::istringstream whole(text.substr(0, text.rfind('\n') + 1));
        for (std::string line; std::getline(whole, line);) {
            calls.push_back(nlohmann::json::parse(line));
        }
        return calls;
    }
    // Ends the trace by a signal, and returns its output.
    std::vector<nlohmann::json> finish() {
        process_.signal(SIGINT);
        CHECK(process_.wait() == 0);
        INFO(process_.output());
        CHECK(process_.output().find(" lost=0") != std::string::npos);
        CHECK((lines().empty() || lines().ends_with('\n')));
        return calls();
    }

private:
    [[nodiscard]] std::string command(const std::string &what, const std::string &config,
                                      const std::vector<std::string> &arguments) const {
        const std::string file = (directory_ / "config.yaml").string();
        write_file(file, config);
        std::string command = "exec " + quoted(exporter_binary()) + " trace " + what +
                              " --config.file=" + quoted(file);
        if (std::ranges::none_of(arguments, [](const std::string &argument) {
                return argument.starts_with("--format");
            })) {
            command += " --format=json";
        }
        for (const std::string &argument : arguments) {
            command += " " + quoted(argument);
        }
        return command + " > " + quoted((directory_ / "lines").string());
    }

    TemporaryDirectory directory_;
    Process process_;
};

}  // namespace harness
