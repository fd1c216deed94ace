// The options of a trace.
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace gpusnoop::trace {

enum class Format { text, json };

// An option that only some traces have, for the command line.
struct Option {
    enum class Takes { nothing, texts, duration };

    std::string_view name;  // "--slow"
    Takes takes = Takes::nothing;
    std::string_view help;
    // The mistake in a text; "" if it has none. Null: every text is valid.
    std::string (*problem)(const std::string &text) = nullptr;
    std::array<std::string_view, 2> excludes{};  // options before it, or ""
};

struct Options {
    Format format = Format::text;
    std::vector<std::uint32_t> pids;                    // at most TRACED_PIDS; empty: all
    std::vector<std::uint32_t> ppids;                   // at most TRACED_PIDS; empty: all
    std::string comm;                                   // a glob for names of processes; empty: all
    std::uint64_t count = 0;                            // lines to write, then stop; 0: no end
    std::optional<std::chrono::milliseconds> duration;  // then stop
    // The trace's own options that were given, by name, with their texts.
    std::map<std::string_view, std::vector<std::string>> given = {};

    [[nodiscard]] bool has(const Option &option) const { return given.contains(option.name); }
    [[nodiscard]] std::vector<std::string> texts(const Option &option) const;
    [[nodiscard]] std::optional<std::chrono::milliseconds> duration_of(const Option &option) const;
};

}  // namespace gpusnoop::trace
