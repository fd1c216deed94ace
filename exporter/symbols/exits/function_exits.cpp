#include "exporter/symbols/exits/function_exits.h"

#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <map>
#include <string>
#include <string_view>
#include <unordered_map>

#include "exporter/base/text/text.h"
#include "exporter/symbols/exits/entry_probe.h"
#include "exporter/symbols/exits/sweep.h"

namespace gpusnoop::symbols {

namespace {

// A function or a part of one, and the result of its sweep.
struct Part {
    std::uint64_t vaddr = 0;
    std::uint64_t size = 0;
    Sweep sweep;

    [[nodiscard]] bool covers(std::uint64_t address) const { return address - vaddr < size; }
};

Result<> checked_size(std::uint64_t size) {
    if (size == 0) {
        return fail("the size of the function is not known");
    }
    if (size > max_function_bytes) {
        return fail("the function is longer than " + std::to_string(max_function_bytes) + " bytes",
                    EFBIG);
    }
    return {};
}

Result<Part> swept(std::span<const std::byte> code, std::uint64_t vaddr, std::uint16_t machine) {
    if (auto usable = checked_size(code.size()); !usable) {
        return tl::unexpected(usable.error());
    }
    auto sweep = machine == EM_X86_64    ? sweep_x86_64(code, vaddr)
                 : machine == EM_AARCH64 ? sweep_aarch64(code, vaddr)
                                         : fail("the machine is not known");
    if (!sweep) {
        return tl::unexpected(sweep.error());
    }
    return Part{vaddr, code.size(), std::move(*sweep)};
}

// Notes that a jump goes to this place, if it is in the first part and behind its first byte.
void note_inner_target(FunctionExits &found, const Part &first, std::uint64_t target) {
    if (target > first.vaddr && first.covers(target)) {
        const std::uint64_t distance = target - first.vaddr;
        found.first_inner_target = std::min(found.first_inner_target.value_or(distance), distance);
    }
}

// The places where the parts return or jump away; the first part is the entered one.
Result<FunctionExits> exits_of(std::span<const Part> parts) {
    FunctionExits found;
    if (const auto target = parts.front().sweep.first_inner_target) {
        note_inner_target(found, parts.front(), *target);
    }
    for (const Part &part : parts) {
        found.has_calls |= part.sweep.has_calls;
        for (const std::uint64_t at : part.sweep.returns) {
            found.exits.push_back({at, ExitKind::return_});
        }
        for (const IndirectJump &jump : part.sweep.indirect_jumps) {
            found.exits.push_back(
                {jump.at, jump.leaves ? ExitKind::tail_call : ExitKind::maybe_tail_call});
        }
        for (const DirectJump &jump : part.sweep.jumps) {
            found.jumps_to_entry |= jump.target == parts.front().vaddr;
            note_inner_target(found, parts.front(), jump.target);
            if (std::none_of(parts.begin(), parts.end(),
                             [&](const Part &other) { return other.covers(jump.target); })) {
                found.exits.push_back(
                    {jump.at,
                     jump.conditional ? ExitKind::conditional_tail_call : ExitKind::tail_call,
                     jump.target});
            }
        }
    }
    if (found.exits.size() > max_exits) {
        return fail("the function has more than " + std::to_string(max_exits) + " exits", EFBIG);
    }
    std::sort(found.exits.begin(), found.exits.end(),
              [](const auto &a, const auto &b) { return a.address < b.address; });
    return found;
}

bool is_number(std::string_view text) {
    return !text.empty() && std::all_of(text.begin(), text.end(), is_digit);
}

// gcc names a rarely run part "<function>.cold" and a part split off by partial inlining
// "<function>.part.<n>"; clang names it "<function>.cold.<n>" (or as gcc since it splits machine
// functions). Partial inlining may bring the jump to another function than the part's name says, so
// the names are not compared.
bool is_split_part(std::string_view name) {
    const auto ends_numbered = [&](std::string_view ending) {
        const std::size_t at = name.rfind(ending);
        return at != std::string_view::npos && is_number(name.substr(at + ending.size()));
    };
    return name.ends_with(".cold") || ends_numbered(".cold.") || ends_numbered(".part.");
}

// The search in one file.
class FileSearch {
public:
    FileSearch(const ElfFile &file, int fd, std::uint64_t file_size, const ElfLimits &limits)
        : file_(file), reader_(fd, file_size, limits) {}

    std::vector<Result<FunctionExits>> run(std::span<const FoundFunction> functions) {
        for (const FoundFunction &function : functions) {
            Work work;
            add_part(work, function.vaddr, function.size);
            works_.push_back(std::move(work));
        }
        // Each round gives every function at least one more part, or ends.
        for (std::size_t round = 0; round <= max_parts && add_split_parts(); ++round) {
        }
        std::vector<Result<FunctionExits>> all;
        std::size_t exits = 0;
        for (const Work &work : works_) {
            all.push_back(work.problem ? tl::unexpected(*work.problem) : in_file(work));
            const std::size_t own = all.back() ? all.back()->exits.size() : 0;
            if (exits + own > max_all_exits) {
                all.back() = fail("the wanted functions of the file have more than " +
                                      std::to_string(max_all_exits) + " exits",
                                  EFBIG);
            } else {
                exits += own;
            }
        }
        return all;
    }

private:
    struct Work {
        std::vector<Part> parts;
        std::size_t searched = 0;  // parts whose jumps were followed
        std::optional<Error> problem;
    };

    void add_part(Work &work, std::uint64_t vaddr, std::uint64_t size) {
        auto part = read_part(vaddr, size);
        if (part) {
            work.parts.push_back(std::move(*part));
        } else {
            work.problem = part.error();
        }
    }

    Result<Part> read_part(std::uint64_t vaddr, std::uint64_t size) {
        if (auto usable = checked_size(size); !usable) {
            return tl::unexpected(usable.error());
        }
        const auto first = file_.to_file_offset(vaddr);
        const auto last = file_.to_file_offset(vaddr + size - 1);
        // The last check: all of it is in one segment, so that offsets and vaddrs correspond.
        if (!first || !last || *last - *first != size - 1) {
            return fail("the function is not in the file as a whole");
        }
        code_.resize(static_cast<std::size_t>(size));
        if (auto done = reader_.read(*first, code_); !done) {
            return tl::unexpected(done.error());
        }
        return swept(code_, vaddr, file_.machine());
    }

    // Follows the jumps out of the newest parts. False if there were none.
    bool add_split_parts() {
        std::map<std::uint64_t, FoundSymbol> symbol_at;  // by vaddr of a jump's target
        for_each_way_out([&](Work &, const DirectJump &jump) { symbol_at[jump.target]; });
        if (symbol_at.empty()) {
            return false;
        }
        std::vector<std::uint64_t> offsets;
        for (auto target = symbol_at.begin(); target != symbol_at.end();) {
            if (const auto offset = file_.to_file_offset(target->first)) {
                offsets.push_back(*offset);
                ++target;
            } else {
                target = symbol_at.erase(target);
            }
        }
        auto symbols = file_.functions_at(offsets);
        std::size_t next = 0;
        for (auto &[target, symbol] : symbol_at) {
            if (symbols) {
                symbol = std::move((*symbols)[next++]);
            }
        }
        std::vector<std::pair<Work *, FoundSymbol>> found;
        for_each_way_out([&](Work &work, const DirectJump &jump) {
            if (!symbols) {
                work.problem = symbols.error();
                return;
            }
            const auto symbol = symbol_at.find(jump.target);
            if (symbol != symbol_at.end() && is_split_part(symbol->second.name)) {
                found.emplace_back(&work, symbol->second);
            }
        });
        for (Work &work : works_) {
            work.searched = work.parts.size();
        }
        for (const auto &[work, symbol] : found) {
            const bool known =
                std::any_of(work->parts.begin(), work->parts.end(),
                            [&](const Part &part) { return part.covers(symbol.vaddr); });
            if (known || work->problem) {
                continue;
            }
            if (work->parts.size() > max_parts) {
                work->problem = Error{"the function has too many parts", EFBIG};
                continue;
            }
            add_part(*work, symbol.vaddr, symbol.size);
        }
        return true;
    }

    template <typename Visit>
    void for_each_way_out(Visit visit) {
        for (Work &work : works_) {
            for (std::size_t i = work.searched; i < work.parts.size() && !work.problem; ++i) {
                for (const DirectJump &jump : work.parts[i].sweep.jumps) {
                    const bool stays =
                        std::any_of(work.parts.begin(), work.parts.end(),
                                    [&](const Part &part) { return part.covers(jump.target); });
                    if (!stays && !work.problem) {
                        visit(work, jump);
                    }
                }
            }
        }
    }

    // The exits with file offsets instead of vaddrs.
    Result<FunctionExits> in_file(const Work &work) const {
        auto found = exits_of(work.parts);
        if (found) {
            for (FunctionExit &exit : found->exits) {
                exit.address = file_.to_file_offset(exit.address).value_or(0);
                exit.target = file_.to_file_offset(exit.target).value_or(0);
            }
        }
        return found;
    }

    const ElfFile &file_;
    ElfReader reader_;
    std::vector<std::byte> code_;
    std::vector<Work> works_;
};

}  // namespace

std::optional<std::size_t> only_predecessor(std::span<const InnerJump> jumps, std::uint64_t offset,
                                            std::size_t index, bool falls_in) {
    const auto [first, last] = std::equal_range(jumps.begin(), jumps.end(), InnerJump{offset, 0});
    if (first == last) {
        return falls_in ? std::optional(index - 1) : std::nullopt;
    }
    return !falls_in && last - first == 1 ? std::optional(first->source) : std::nullopt;
}

std::optional<std::uint64_t> first_inner_target(std::span<const InnerJump> jumps,
                                                std::uint64_t vaddr) {
    const auto found = std::ranges::upper_bound(jumps, std::uint64_t{0}, {}, &InnerJump::target);
    return found == jumps.end() ? std::nullopt : std::optional(vaddr + found->target);
}

bool FunctionExits::has(ExitKind kind) const {
    return std::any_of(exits.begin(), exits.end(),
                       [&](const FunctionExit &exit) { return exit.kind == kind; });
}

Result<FunctionExits> find_exits(std::span<const std::byte> code, std::uint64_t vaddr,
                                 std::uint16_t machine) {
    const auto part = swept(code, vaddr, machine);
    if (!part) {
        return tl::unexpected(part.error());
    }
    return exits_of(std::span(&*part, 1));
}

std::vector<Result<FunctionExits>> find_exits(const ElfFile &file, int fd,
                                              std::span<const FoundFunction> functions,
                                              const ElfLimits &limits) {
    struct stat status{};
    if (::fstat(fd, &status) != 0) {
        return std::vector<Result<FunctionExits>>(functions.size(), fail_errno("fstat"));
    }
    return FileSearch(file, fd, static_cast<std::uint64_t>(status.st_size), limits).run(functions);
}

namespace {

template <std::size_t kCount>
bool skip(std::span<const std::byte> &code, const std::array<std::uint8_t, kCount> &prefix) {
    if (code.size() < kCount || std::memcmp(code.data(), prefix.data(), kCount) != 0) {
        return false;
    }
    code = code.subspan(kCount);
    return true;
}

// What compilers make of `return other(...)`, without and with frame pointers.
std::optional<std::uint64_t> forwarded_on_x86(std::span<const std::byte> code,
                                              std::uint64_t vaddr) {
    const std::size_t all = code.size();
    skip(code, std::array<std::uint8_t, 4>{0xf3, 0x0f, 0x1e, 0xfa});        // endbr64
    skip(code, std::array<std::uint8_t, 5>{0x55, 0x48, 0x89, 0xe5, 0x5d});  // push, mov, pop
    if (!skip(code, std::array<std::uint8_t, 1>{0xe9})) {                   // jmp
        return std::nullopt;
    }
    std::int32_t distance = 0;
    if (code.size() < sizeof distance) {
        return std::nullopt;
    }
    std::memcpy(&distance, code.data(), sizeof distance);
    const std::uint64_t next = vaddr + (all - code.size()) + sizeof distance;
    return next + static_cast<std::uint64_t>(std::int64_t{distance});
}

std::optional<std::uint64_t> forwarded_on_arm64(std::span<const std::byte> code,
                                                std::uint64_t vaddr) {
    const std::size_t all = code.size();
    skip(code, std::array<std::uint8_t, 4>{0x5f, 0x24, 0x03, 0xd5});  // bti c
    std::uint32_t instruction = 0;
    if (code.size() < sizeof instruction) {
        return std::nullopt;
    }
    std::memcpy(&instruction, code.data(), sizeof instruction);
    if (instruction >> 26 != 0b000101) {  // B
        return std::nullopt;
    }
    // 26 bits, signed, in units of 4 bytes.
    const std::int64_t distance = static_cast<std::int32_t>(instruction << 6) >> 4;
    return vaddr + (all - code.size()) + static_cast<std::uint64_t>(distance);
}

}  // namespace

std::optional<std::uint64_t> forwarded_to(std::span<const std::byte> code, std::uint64_t vaddr,
                                          std::uint16_t machine) {
    return machine == EM_X86_64 ? forwarded_on_x86(code, vaddr) : forwarded_on_arm64(code, vaddr);
}

std::vector<std::optional<std::uint64_t>> find_forwarders(
    const ElfFile &file, int fd, std::span<const FoundFunction> functions) {
    std::unordered_map<std::uint64_t, std::uint64_t> by_vaddr;
    for (const FoundFunction &function : functions) {
        by_vaddr.emplace(function.vaddr, function.file_offset);
    }
    const auto bytes = first_bytes(fd, functions);
    std::vector<std::optional<std::uint64_t>> all(functions.size());
    for (std::size_t i = 0; i < functions.size(); ++i) {
        const auto target = forwarded_to(bytes[i], functions[i].vaddr, file.machine());
        const auto other = target ? by_vaddr.find(*target) : by_vaddr.end();
        if (other != by_vaddr.end() && other->second != functions[i].file_offset) {
            all[i] = other->second;
        }
    }
    return all;
}

}  // namespace gpusnoop::symbols
