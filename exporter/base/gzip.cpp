#include "exporter/base/gzip.h"

#include <zlib.h>

#include <limits>
#include <vector>

namespace gpusnoop {

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

}  // namespace gpusnoop
