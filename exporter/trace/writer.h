// The rounds of a trace, and its end: the same for whatever is traced.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "exporter/base/output.h"
#include "exporter/base/result.h"
#include "exporter/trace/event.h"
#include "exporter/trace/options.h"

namespace gpusnoop::trace {

class Writer {
public:
    // `stop_fd` stays the caller's.
    Writer(const Options &options, int stop_fd);

    // As many calls are written as were asked for, or nobody reads them any more.
    [[nodiscard]] bool done() const {
        return output_.closed() || (options_.count != 0 && written_ >= options_.count);
    }
    // Nothing once all is done. A text may be of several lines.
    void write(std::string_view text);
    void write(const Event &event);

    struct Rounds {
        std::chrono::milliseconds interval;
        std::string header;                   // of the text
        std::function<void()> drain;          // writes what has come
        std::function<std::uint64_t()> lost;  // calls so far
    };
    // Returns at the end of the trace, whatever its reason: see Options. Says in the log what was
    // lost. Fails if the lines could not be written.
    Result<> run(const Rounds &rounds);

private:
    const Options &options_;
    Output output_;
    std::uint64_t written_ = 0;
};

}  // namespace gpusnoop::trace
