// The parts of ElfFile besides symbol tables: sections by name, the table for unwinding, and the
// debug file with the symbols of a stripped one.
#include <lzma.h>
#include <sys/mman.h>
#include <unistd.h>
#include <zlib.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <string_view>
#include <utility>
#include <vector>

#include "exporter/symbols/elf/elf_file.h"

namespace gpusnoop::symbols {

namespace {

// Section names after this limit are ignored. Usual are some hundred bytes.
constexpr std::uint64_t max_section_names = std::uint64_t{1} << 20;

constexpr std::uint64_t max_link_bytes = 4096;
constexpr std::uint64_t max_starts = 4'000'000;

// PT_GNU_EH_FRAME as all linkers make it: offsets of 32 bits, from its own beginning.
struct UnwindHeader {
    std::array<std::uint8_t, 4> kinds;  // version, and the encodings of the other fields
    std::int32_t frames;
    std::uint32_t count;
};
constexpr std::array<std::uint8_t, 4> unwind_kinds = {1, 0x1b, 0x03, 0x3b};

struct UnwindEntry {
    std::int32_t function;
    std::int32_t description;
};

Result<std::uint32_t> crc_of(int fd, std::uint64_t size, const ElfLimits &limits) {
    ElfReader reader(fd, size, limits);
    std::vector<std::byte> chunk;
    uLong crc = ::crc32(0, nullptr, 0);
    for (std::uint64_t at = 0; at < size; at += chunk.size()) {
        chunk.resize(
            static_cast<std::size_t>(std::min<std::uint64_t>(size - at, ElfReader::chunk_bytes)));
        if (auto done = reader.read(at, chunk); !done) {
            return tl::unexpected(done.error());
        }
        crc = ::crc32(crc, reinterpret_cast<const Bytef *>(chunk.data()),
                      static_cast<uInt>(chunk.size()));
    }
    return static_cast<std::uint32_t>(crc);
}

}  // namespace

std::optional<Elf64_Shdr> ElfFile::find_section(ElfReader &reader,
                                                std::span<const std::string_view> names) const {
    const auto header = reader.read_one<Elf64_Ehdr>(0);
    if (!header || header->e_shoff == 0 || header->e_shentsize != sizeof(Elf64_Shdr)) {
        return std::nullopt;
    }
    // If the numbers do not fit into the header, the first section has them.
    const auto first = reader.read_one<Elf64_Shdr>(header->e_shoff);
    if (!first) {
        return std::nullopt;
    }
    const std::uint64_t count = header->e_shnum != 0 ? header->e_shnum : first->sh_size;
    const std::uint64_t index =
        header->e_shstrndx == SHN_XINDEX ? first->sh_link : header->e_shstrndx;
    if (count > max_sections || index >= count) {
        return std::nullopt;
    }
    const auto section = reader.read_one<Elf64_Shdr>(header->e_shoff + index * sizeof(Elf64_Shdr));
    if (!section || !lies_inside(section->sh_offset, section->sh_size, file_size_)) {
        return std::nullopt;
    }
    std::string text(static_cast<std::size_t>(std::min(section->sh_size, max_section_names)), '\0');
    if (!reader.read(section->sh_offset, std::as_writable_bytes(std::span(text)))) {
        return std::nullopt;
    }
    std::optional<Elf64_Shdr> found;
    auto done = reader.for_each<Elf64_Shdr>(header->e_shoff, count, [&](const Elf64_Shdr &entry) {
        const std::string_view rest =
            std::string_view(text).substr(std::min<std::size_t>(entry.sh_name, text.size()));
        if (std::any_of(names.begin(), names.end(), [&](std::string_view name) {
                return rest.size() > name.size() && rest.starts_with(name) &&
                       rest[name.size()] == '\0';
            })) {
            found = entry;
        }
        return !found;
    });
    return done ? found : std::nullopt;
}

bool ElfFile::has_section(std::span<const std::string_view> names) const {
    ElfReader reader(fd_, file_size_, limits_);
    return find_section(reader, names).has_value();
}

bool ElfFile::section_contains(std::string_view section, std::string_view text) const {
    constexpr std::uint64_t max_bytes = std::uint64_t{64} << 10;
    ElfReader reader(fd_, file_size_, limits_);
    const auto found = find_section(reader, std::span(&section, 1));
    if (!found || found->sh_type == SHT_NOBITS) {
        return false;
    }
    std::string bytes(static_cast<std::size_t>(std::min(found->sh_size, max_bytes)), '\0');
    return reader.read(found->sh_offset, std::as_writable_bytes(std::span(bytes))) &&
           bytes.find(text) != std::string::npos;
}

std::optional<DebugLink> ElfFile::debug_link() const {
    ElfReader reader(fd_, file_size_, limits_);
    constexpr std::array<std::string_view, 1> names = {".gnu_debuglink"};
    const auto section = find_section(reader, names);
    DebugLink link;
    if (!section || section->sh_type != SHT_PROGBITS || section->sh_size > max_link_bytes ||
        section->sh_size < sizeof(link.crc)) {
        return std::nullopt;
    }
    std::string text(static_cast<std::size_t>(section->sh_size), '\0');
    if (!reader.read(section->sh_offset, std::as_writable_bytes(std::span(text)))) {
        return std::nullopt;
    }
    // The name ends with a NUL, and the CRC lies at the next multiple of four bytes.
    const std::size_t end = text.find('\0');
    const std::size_t at = end == std::string::npos ? text.size() : (end + 4) / 4 * 4;
    if (at > text.size() - sizeof(link.crc)) {
        return std::nullopt;
    }
    std::memcpy(&link.crc, text.data() + at, sizeof(link.crc));
    link.name = text.substr(0, end);
    return link;
}

std::vector<std::uint64_t> ElfFile::unwind_starts() const {
    const auto segment = std::find_if(segments_.begin(), segments_.end(), [](const auto &one) {
        return one.p_type == PT_GNU_EH_FRAME;
    });
    std::vector<std::uint64_t> starts;
    if (segment == segments_.end()) {
        return starts;
    }
    ElfReader reader(fd_, file_size_, limits_);
    const auto header = reader.read_one<UnwindHeader>(segment->p_offset);
    if (!header || header->kinds != unwind_kinds || header->count > max_starts) {
        return starts;
    }
    auto done = reader.for_each<UnwindEntry>(
        segment->p_offset + sizeof(UnwindHeader), header->count, [&](const UnwindEntry &entry) {
            starts.push_back(segment->p_vaddr +
                             static_cast<std::uint64_t>(std::int64_t{entry.function}));
            return true;
        });
    if (!done) {
        starts.clear();
    }
    std::sort(starts.begin(), starts.end());
    return starts;
}

Result<std::shared_ptr<const ElfFile::DebugFile>> ElfFile::open_debug_file(
    Fd file, const WorkLimit &limit) const {
    ElfLimits limits = limits_;
    limits.work = limit;
    const auto debug = ElfFile::open(file.get(), limits);
    if (!debug) {
        return tl::unexpected(debug.error());
    }
    if (debug->machine_ != machine_ || !debug->symtab_) {
        return fail("it has no symbols of the file");
    }
    if (const auto id = build_id()) {
        if (debug->build_id() != id) {
            return fail("it is of another build");
        }
    } else {
        const auto link = debug_link();
        const auto crc = crc_of(file.get(), debug->file_size_, limits);
        if (!link || !crc || *crc != link->crc) {
            return fail("it is not what the file's link says");
        }
    }
    return std::make_shared<const DebugFile>(
        DebugFile{std::move(file), debug->file_size_, *debug->symtab_});
}

ElfFile::Readers::Readers(const ElfFile &file, std::vector<SymbolTable> own)
    : tables_(std::move(own)),
      own_(tables_.size()),
      reader_(file.fd_, file.file_size_, file.limits_) {
    if (file.debug_ != nullptr) {
        tables_.push_back(file.debug_->symtab);
        debug_reader_.emplace(file.debug_->fd.get(), file.debug_->file_size, file.limits_);
    }
}

ElfReader &ElfFile::Readers::of(std::size_t table) {
    return is_of_debug_file(table) ? *debug_reader_ : reader_;
}

// The symbols that a stripped file has inside, compressed: .gnu_debugdata.

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
