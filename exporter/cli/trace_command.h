// `gpusnoop_exporter trace`: a sub-command for each probe with a trace, and the calls in flight.
#pragma once

#include <list>
#include <string>

#include "exporter/cli/settings.h"
#include "exporter/cli/top/in_flight.h"
#include "exporter/trace/trace.h"

namespace CLI {
class App;
}

namespace gpusnoop::cli {

class TraceCommand {
public:
    explicit TraceCommand(CLI::App &command);
    TraceCommand(const TraceCommand &) = delete;
    TraceCommand &operator=(const TraceCommand &) = delete;

    [[nodiscard]] bool parsed() const;
    // Runs until the trace ends; returns the exit code.
    [[nodiscard]] int run(const Settings &settings) const;

private:
    void add_in_flight(CLI::App &traces);
    void add(CLI::App &traces, const std::string &name, const trace::Kind &kind);

    struct Choice {
        const trace::Kind &kind;
        const CLI::App *command;
        trace::Options options;
    };

    std::list<Choice> choices_;  // the parser has pointers into it
    const CLI::App *traces_;
    bool is_in_flight_ = false;  // print the calls in flight instead
    top::InFlightOptions in_flight_;
};

}  // namespace gpusnoop::cli
