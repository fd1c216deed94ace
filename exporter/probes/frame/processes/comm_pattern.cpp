#include "exporter/probes/frame/processes/comm_pattern.h"

#include <fnmatch.h>

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "bpf/lib/processes/process.h"

namespace gpusnoop::probes {

namespace {

// The length of a token that matches one character: a character, an escaped one, or a bracket. 0:
// an unclosed bracket, or a backslash at the end.
std::size_t token_length(std::string_view glob) {
    if (glob.front() == '\\') {
        return glob.size() > 1 ? 2 : 0;
    }
    if (glob.front() != '[') {
        return 1;
    }
    std::size_t at = 1;
    if (at < glob.size() && (glob[at] == '!' || glob[at] == '^')) {
        at++;
    }
    // A closing bracket that comes first is a member.
    for (std::size_t first = at; at < glob.size(); at++) {
        if (glob[at] == ']' && at > first) {
            return at + 1;
        }
        if (glob[at] == '\\') {
            at++;
        } else if (glob[at] == '[' && at + 1 < glob.size() &&
                   std::string_view(":.=").find(glob[at + 1]) != std::string_view::npos) {
            const std::string end = {glob[at + 1], ']'};
            const std::size_t closed = glob.find(end, at + 2);
            if (closed != std::string_view::npos) {
                at = closed + 1;
            }
        }
    }
    return 0;
}

}  // namespace

std::optional<target_pattern> compile_comm_pattern(const std::string &glob) {
    target_pattern pattern{};
    std::uint32_t length = 0;
    std::uint32_t stars = 0;
    std::string_view rest = glob;
    while (!rest.empty()) {
        if (rest.front() == '*') {
            stars |= 1U << length;
            rest.remove_prefix(1);
            continue;
        }
        if (++length >= PROCESS_COMM_BYTES) {
            return std::nullopt;
        }
        const std::string token(rest.substr(0, token_length(rest)));
        if (token.empty()) {
            return std::nullopt;
        }
        rest.remove_prefix(token.size());
        for (unsigned byte = 1; byte < 256; byte++) {
            const std::string one(1, static_cast<char>(byte));
            if (::fnmatch(token.c_str(), one.c_str(), 0) == 0) {
                pattern.next[byte] |= 1U << length;
            }
        }
    }
    for (unsigned byte = 1; byte < 256; byte++) {
        pattern.stays[byte] = stars;
    }
    pattern.stays[0] = ~0U;
    pattern.whole = length;
    return pattern;
}

}  // namespace gpusnoop::probes
