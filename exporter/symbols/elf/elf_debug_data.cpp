// The symbols that a stripped file has inside, compressed: .gnu_debugdata.
#include <lzma.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <string_view>
#include <utility>
#include <vector>

#include "exporter/symbols/elf/elf_file.h"

namespace gpusnoop::symbols {
namespace {

// xz -9 needs 65 MiB, of which no more is used than there is text. Distributions use xz -6: 9 MiB.
constexpr std::uint64_t max_decoder_memory = std::uint64_t{80} << 20;
constexpr std::chrono::seconds longest_decoding{1};

class Decoder {
public:
    Decoder() = default;
    ~Decoder() { ::lzma_end(&stream_); }
    Decoder(const Decoder &) = delete;
    Decoder &operator=(const Decoder &) = delete;

    // Everything that is decoded goes to `to`. True at the end of the data.
    Result<bool> decode(std::span<const std::byte> bytes, int to, ElfReader &reader) {
        if (!is_ready_ && ::lzma_stream_decoder(&stream_, max_decoder_memory, 0) != LZMA_OK) {
            return fail("there is no memory to decompress it", ENOMEM);
        }
        is_ready_ = true;
        stream_.next_in = reinterpret_cast<const std::uint8_t *>(bytes.data());
        stream_.avail_in = bytes.size();
        while (stream_.avail_in > 0 || stream_.avail_out == 0) {
            stream_.next_out = out_.data();
            stream_.avail_out = out_.size();
            const lzma_ret state = ::lzma_code(&stream_, LZMA_RUN);
            if (state != LZMA_OK && state != LZMA_STREAM_END) {
                return state == LZMA_MEMLIMIT_ERROR
                           ? fail("decompressing its symbols needs too much memory", EFBIG)
                           : fail("its compressed symbols are damaged");
            }
            if (auto done = write(to, out_.size() - stream_.avail_out); !done) {
                return tl::unexpected(done.error());
            }
            if (state == LZMA_STREAM_END) {
                return true;
            }
            if (auto in_time = reader.work(out_.size()); !in_time) {
                return tl::unexpected(in_time.error());
            }
        }
        return false;
    }

private:
    Result<> write(int to, std::size_t size) {
        written_ += size;
        if (written_ > ElfFile::max_debug_data) {
            return fail("its compressed symbols are too large", EFBIG);
        }
        // A file in memory takes all of it, or there is no memory.
        if (size > 0 && ::write(to, out_.data(), size) != static_cast<ssize_t>(size)) {
            return fail_errno("write its symbols");
        }
        return {};
    }

    lzma_stream stream_ = LZMA_STREAM_INIT;
    bool is_ready_ = false;
    std::uint64_t written_ = 0;
    std::vector<std::uint8_t> out_ = std::vector<std::uint8_t>(ElfReader::chunk_bytes);
};

}  // namespace

Result<std::shared_ptr<const ElfFile::DebugFile>> ElfFile::debug_data() const {
    constexpr std::array<std::string_view, 1> names = {".gnu_debugdata"};
    ElfLimits limits = limits_;
    limits.deadline = std::min<decltype(limits.deadline)>(limits.deadline, longest_decoding);
    ElfReader reader(fd_, file_size_, limits);
    const auto section = find_section(reader, names);
    if (!section || section->sh_type != SHT_PROGBITS ||
        !lies_inside(section->sh_offset, section->sh_size, file_size_)) {
        return fail("it has no compressed symbols", ENOENT);
    }
    if (section->sh_size > max_debug_data) {
        return fail("its compressed symbols are too large", EFBIG);
    }
    Fd memory(::memfd_create("symbols", MFD_CLOEXEC));
    if (!memory) {
        return fail_errno("memfd_create");
    }
    Decoder decoder;
    std::vector<std::byte> chunk;
    bool is_whole = false;
    for (std::uint64_t at = 0; at < section->sh_size && !is_whole; at += chunk.size()) {
        chunk.resize(static_cast<std::size_t>(
            std::min<std::uint64_t>(section->sh_size - at, ElfReader::chunk_bytes)));
        if (auto done = reader.read(section->sh_offset + at, chunk); !done) {
            return tl::unexpected(done.error());
        }
        const auto decoded = decoder.decode(chunk, memory.get(), reader);
        if (!decoded) {
            return tl::unexpected(decoded.error());
        }
        is_whole = *decoded;
    }
    if (!is_whole) {
        return fail("its compressed symbols are cut off");
    }
    const auto debug = ElfFile::open(memory.get(), limits_);
    if (!debug) {
        return tl::unexpected(debug.error());
    }
    if (debug->machine_ != machine_ || !debug->symtab_) {
        return fail("its compressed symbols are none of the file");
    }
    return std::make_shared<const DebugFile>(
        DebugFile{std::move(memory), debug->file_size_, *debug->symtab_, true});
}

}  // namespace gpusnoop::symbols
