#include "exporter/symbols/stacks/perf_map.h"

#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <string_view>

#include "exporter/base/text/text.h"
#include "exporter/processes/proc.h"
#include "exporter/symbols/demangle/function_name.h"

namespace gpusnoop::symbols {

namespace {

constexpr std::size_t max_line_bytes = 4096;  // the rest of a longer line is skipped
constexpr std::size_t read_at_once = std::size_t{64} << 10U;

struct Line {
    std::uint64_t start = 0;
    std::uint64_t size = 0;  // 0: it is none
    std::string_view name;
};

// Takes a number off the text, and the blank behind it.
std::uint64_t take_number(std::string_view &text) {
    if (text.starts_with("0x")) {
        text.remove_prefix(2);
    }
    std::uint64_t number = 0;
    const auto [end, wrong] = std::from_chars(text.data(), text.data() + text.size(), number, 16);
    const auto used = static_cast<std::size_t>(end - text.data());
    if (wrong != std::errc() || used == text.size() || text[used] != ' ') {
        text = {};
        return 0;
    }
    text.remove_prefix(used + 1);
    return number;
}

Line parse(std::string_view text) {
    Line line;
    line.start = take_number(text);
    line.size = take_number(text);
    line.name = text;
    return line;
}

class Reader {
public:
    explicit Reader(std::span<const std::uint64_t> addresses) {
        for (const std::uint64_t address : addresses) {
            functions_.try_emplace(address);
        }
    }

    void use(std::string_view text) {
        const Line line = parse(text);
        for (auto at = functions_.lower_bound(line.start);
             at != functions_.end() && at->first - line.start < line.size && names_left_ > 0;
             ++at) {
            --names_left_;
            at->second = {to_valid_utf8(line.name, max_function_name_bytes),
                          at->first - line.start};
        }
    }

    [[nodiscard]] std::map<std::uint64_t, FunctionAt> take() { return std::move(functions_); }

private:
    std::map<std::uint64_t, FunctionAt> functions_;
    // Ranges that overlap name an address again. A file of another user must not take minutes.
    std::size_t names_left_ = 1'000'000;
};

}  // namespace

std::map<std::uint64_t, FunctionAt> functions_in_perf_map(int file,
                                                          std::span<const std::uint64_t> addresses,
                                                          const WorkLimit &limit) {
    Reader reader(addresses);
    std::string piece(read_at_once, '\0');
    std::string line;  // up to where the last piece has ended
    off_t offset = 0;
    while (!limit.is_reached()) {
        const ssize_t got = ::pread(file, piece.data(), piece.size(), offset);
        if (got < 0 && errno == EINTR) {
            continue;
        }
        if (got <= 0) {
            break;
        }
        offset += got;
        std::string_view rest(piece.data(), static_cast<std::size_t>(got));
        while (!rest.empty()) {
            const std::size_t end = rest.find('\n');
            line += rest.substr(0, std::min(end, max_line_bytes - line.size()));
            if (end == std::string_view::npos) {
                break;
            }
            reader.use(line);
            line.clear();
            rest.remove_prefix(end + 1);
        }
    }
    reader.use(line);
    return reader.take();
}

std::string perf_map_path(std::uint32_t tgid) {
    const auto pid = processes::innermost_id_of(tgid).value_or(tgid);
    return "/tmp/perf-" + std::to_string(pid) + ".map";
}

}  // namespace gpusnoop::symbols
