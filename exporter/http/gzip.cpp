#include "exporter/http/gzip.h"

#include <strings.h>
#include <zlib.h>

#include <limits>
#include <vector>

#include "exporter/base/words.h"

namespace gpusnoop::http {

namespace {

// The part of `text` before `separator`; `text` keeps what follows it.
std::string_view take(std::string_view &text, char separator) {
    const std::size_t end = text.find(separator);
    const std::string_view part = text.substr(0, end);
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
    return trim(part);
}

bool same_word(std::string_view a, std::string_view b) {
    return a.size() == b.size() && strncasecmp(a.data(), b.data(), a.size()) == 0;
}

// "q=0", "q=0.0", "q=0.000": not acceptable (RFC 9110, 12.4.2).
bool is_zero_weight(std::string_view parameter) {
    return parameter.size() > 2 && same_word(parameter.substr(0, 2), "q=") &&
           parameter.substr(2).find_first_not_of("0.") == std::string_view::npos;
}

}  // namespace

bool accepts_gzip(std::string_view accept_encoding) {
    std::optional<bool> named;
    bool any = false;
    while (!accept_encoding.empty()) {
        std::string_view item = take(accept_encoding, ',');
        const std::string_view coding = take(item, ';');
        bool wanted = true;
        while (!item.empty()) {
            const std::string_view parameter = take(item, ';');
            wanted = wanted && !is_zero_weight(parameter);
        }
        if (same_word(coding, "gzip") || same_word(coding, "x-gzip")) {
            named = wanted;
        } else if (coding == "*") {
            any = wanted;
        }
    }
    return named.value_or(any);
}

std::optional<std::string> gzip(std::string_view text) {
    if (text.size() > std::numeric_limits<uInt>::max()) {
        return std::nullopt;
    }
    constexpr int gzip_window = 15 + 16;  // the value with which zlib writes a gzip header
    constexpr int memory = 8;
    z_stream stream{};
    if (deflateInit2(&stream, Z_BEST_SPEED, Z_DEFLATED, gzip_window, memory, Z_DEFAULT_STRATEGY) !=
        Z_OK) {
        return std::nullopt;
    }
    // zlib reads through a pointer to non-const, but does not write.
    stream.next_in = reinterpret_cast<Bytef *>(const_cast<char *>(text.data()));
    stream.avail_in = static_cast<uInt>(text.size());
    // In pieces: a buffer for the worst case would be as large as the text.
    std::string out;
    std::vector<Bytef> piece(std::size_t{64} << 10U);
    int status = Z_OK;
    while (status == Z_OK) {
        stream.next_out = piece.data();
        stream.avail_out = static_cast<uInt>(piece.size());
        status = deflate(&stream, Z_FINISH);
        out.append(reinterpret_cast<const char *>(piece.data()), piece.size() - stream.avail_out);
    }
    deflateEnd(&stream);
    return status == Z_STREAM_END ? std::optional(std::move(out)) : std::nullopt;
}

}  // namespace gpusnoop::http
