// Reads the notes that <sys/sdt.h> leaves in a file: where its USDT probes are.
#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

#include "exporter/symbols/elf/elf_file.h"

namespace gpusnoop::symbols {
namespace {

constexpr std::uint32_t usdt_note_type = 3;  // NT_STAPSDT
constexpr std::string_view usdt_owner{"stapsdt\0", 8};

// The beginning of a note's description, as linked. Provider, probe and arguments follow, each with
// a NUL at its end.
struct UsdtAddresses {
    std::uint64_t place;
    std::uint64_t base;  // of the section .stapsdt.base, before prelink moved the file
    std::uint64_t semaphore;
};

// The text up to the next NUL, which it removes from `rest`, too; empty without a NUL.
std::optional<std::string_view> take_text(std::string_view &rest) {
    const std::size_t end = rest.find('\0');
    if (end == std::string_view::npos) {
        return std::nullopt;
    }
    const std::string_view text = rest.substr(0, end);
    rest.remove_prefix(end + 1);
    return text;
}

// Calls `visit` with the addresses, the provider and the probe of each note. False: one is cut off.
template <typename Visit>
bool for_each_note(std::string_view notes, Visit visit) {
    const auto round_up = [](std::uint64_t size) { return (size + 3) / 4 * 4; };
    while (!notes.empty()) {
        Elf64_Nhdr note;
        if (notes.size() < sizeof(note)) {
            return false;
        }
        std::memcpy(&note, notes.data(), sizeof(note));
        // 32-bit sizes in 64-bit sums: nothing wraps.
        const std::uint64_t payload = sizeof(note) + round_up(note.n_namesz);
        if (!lies_inside(payload, note.n_descsz, notes.size())) {
            return false;
        }
        if (note.n_type == usdt_note_type && note.n_namesz == usdt_owner.size() &&
            notes.substr(sizeof(note)).starts_with(usdt_owner)) {
            UsdtAddresses addresses;
            std::string_view rest = notes.substr(static_cast<std::size_t>(payload), note.n_descsz);
            if (rest.size() < sizeof(addresses)) {
                return false;
            }
            std::memcpy(&addresses, rest.data(), sizeof(addresses));
            rest.remove_prefix(sizeof(addresses));
            const auto provider = take_text(rest);
            const auto probe = take_text(rest);
            if (!provider || !probe) {
                return false;
            }
            visit(addresses, *provider, *probe);
        }
        notes.remove_prefix(static_cast<std::size_t>(
            std::min<std::uint64_t>(payload + round_up(note.n_descsz), notes.size())));
    }
    return true;
}

// Of one byte and of five on x86_64, as <sys/sdt.h> has them.
bool is_nop(std::uint16_t machine, std::span<const std::byte, 5> code) {
    constexpr std::array<std::uint8_t, 5> long_nop{0x0f, 0x1f, 0x44, 0x00, 0x00};
    constexpr std::array<std::uint8_t, 4> arm64_nop{0x1f, 0x20, 0x03, 0xd5};
    if (machine == EM_AARCH64) {
        return std::memcmp(code.data(), arm64_nop.data(), arm64_nop.size()) == 0;
    }
    return code[0] == std::byte{0x90} ||
           std::memcmp(code.data(), long_nop.data(), long_nop.size()) == 0;
}

// The file offset of the semaphore at `address`, as linked; empty if it is not a whole counter of
// the section of semaphores. A note may name any address, and the kernel changes what is there in
// each process.
std::optional<std::uint64_t> semaphore_offset(const std::optional<Elf64_Shdr> &section,
                                              std::span<const Elf64_Phdr> segments,
                                              std::uint64_t address) {
    constexpr std::uint64_t bytes = sizeof(std::uint16_t);
    if (!section || section->sh_type != SHT_PROGBITS || (section->sh_flags & SHF_WRITE) == 0 ||
        address % bytes != 0 || address < section->sh_addr ||
        !lies_inside(address - section->sh_addr, bytes, section->sh_size)) {
        return std::nullopt;
    }
    const auto offset = file_offset_of(segments, address, PF_W);
    return offset && *offset - section->sh_offset == address - section->sh_addr ? offset
                                                                                : std::nullopt;
}

// The notes in their section. `probes` are looked for in each.
Result<std::string> read_notes(ElfReader &reader, const Elf64_Shdr &section,
                               std::uint64_t file_size, std::size_t probes) {
    if (section.sh_type != SHT_NOTE ||
        !lies_inside(section.sh_offset, section.sh_size, file_size)) {
        return fail("its notes of USDT probes lie outside the file");
    }
    if (section.sh_size > ElfFile::max_usdt_bytes) {
        return fail("its notes of USDT probes have more than " +
                        std::to_string(ElfFile::max_usdt_bytes) + " bytes",
                    EFBIG);
    }
    std::string notes(static_cast<std::size_t>(section.sh_size), '\0');
    if (auto done = reader.read(section.sh_offset, std::as_writable_bytes(std::span(notes)));
        !done) {
        return tl::unexpected(done.error());
    }
    if (auto done = reader.work(section.sh_size * probes); !done) {
        return tl::unexpected(done.error());
    }
    return notes;
}

}  // namespace

Result<std::vector<UsdtProbe>> ElfFile::find_usdt_probes(std::span<const UsdtName> names) const {
    std::vector<UsdtProbe> found(names.size());
    ElfReader reader(fd_, file_size_, limits_);
    constexpr std::array<std::string_view, 1> section_of_notes = {".note.stapsdt"};
    constexpr std::array<std::string_view, 1> section_of_base = {".stapsdt.base"};
    constexpr std::array<std::string_view, 1> section_of_semaphores = {".probes"};
    const auto section = find_section(reader, section_of_notes);
    if (!section || names.empty()) {
        return found;
    }
    const auto notes = read_notes(reader, *section, file_size_, names.size());
    if (!notes) {
        return tl::unexpected(notes.error());
    }
    const auto base = find_section(reader, section_of_base);
    const auto semaphores = find_section(reader, section_of_semaphores);
    std::size_t places = 0;
    const auto add = [&](UsdtProbe &probe, const UsdtAddresses &noted) {
        const std::uint64_t moved =
            base && noted.base != 0 ? base->sh_addr - noted.base : std::uint64_t{0};
        const auto at = file_offset_of(segments_, noted.place + moved, PF_X);
        const auto semaphore =
            noted.semaphore == 0 ? std::uint64_t{0}
                                 : semaphore_offset(semaphores, segments_, noted.semaphore + moved);
        std::array<std::byte, 5> code{};
        const bool is_whole =
            at && *at < file_size_ &&
            reader.read(*at, std::span(code).first(static_cast<std::size_t>(
                                 std::min<std::uint64_t>(code.size(), file_size_ - *at))));
        if (!is_whole || !is_nop(machine_, code)) {
            ++probe.unusable;
        } else if (!semaphore || *semaphore >= file_size_) {
            ++probe.wrong_semaphores;
        } else {
            probe.places.push_back({*at, *semaphore});
        }
    };
    const bool is_whole =
        for_each_note(*notes, [&](const UsdtAddresses &noted, auto provider, auto probe) {
            for (std::size_t i = 0; i < names.size(); ++i) {
                if (names[i].provider == provider && names[i].probe == probe &&
                    ++places <= max_usdt_places) {
                    add(found[i], noted);
                }
            }
        });
    if (!is_whole) {
        return fail("its notes of USDT probes are cut off");
    }
    if (places > max_usdt_places) {
        return fail("its USDT probes have more than " + std::to_string(max_usdt_places) + " places",
                    EFBIG);
    }
    for (UsdtProbe &probe : found) {
        std::ranges::sort(probe.places);
        const auto same = std::ranges::unique(probe.places, {}, &UsdtPlace::file_offset);
        probe.places.erase(same.begin(), same.end());
    }
    return found;
}

}  // namespace gpusnoop::symbols
