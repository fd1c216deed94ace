// Runs the rounds of a trace until its end: the same for every trace.
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

    // The requested number of calls is written, or the reader is gone.
    [[nodiscard]] bool done() const {
        return output_.closed() || (options_.count != 0 && written_ >= options_.count);
    }
    // Does nothing once done(). A text may have several lines.
    void write(std::string_view text);
    void write(const Event &event);

    struct Rounds {
        std::chrono::milliseconds interval;
        std::string header;                   // of the text
        std::function<void()> drain;          // writes the records that have come
        std::function<void()> finish;         // writes what it has held back
        std::function<std::uint64_t()> lost;  // calls so far
    };
    // Returns at the end of the trace, for any reason: see Options. Logs the losses. Fails if the
    // lines could not be written.
    Result<> run(const Rounds &rounds);

private:
    const Options &options_;
    Output output_;
    std::uint64_t written_ = 0;
};

}  // namespace gpusnoop::trace
