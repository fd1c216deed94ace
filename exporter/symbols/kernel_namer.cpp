#include "exporter/symbols/kernel_namer.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <utility>

#include "exporter/symbols/kernel_name.h"
#include "exporter/symbols/process_memory.h"

namespace gpusnoop::symbols {
namespace {

// What a loaded executable's addresses are above those it was linked with, given where its code
// begins.
std::optional<std::uint64_t> load_bias(const Executable &executable, const CachedFile &file) {
    const auto lowest = file.elf() ? file.elf()->lowest_executable_vaddr() : std::nullopt;
    return lowest ? std::optional(executable.code_start - *lowest) : std::nullopt;
}

// The program that the process runs now, if it is `executable`.
Fd open_running(const Executable &executable) {
    const std::string path = "/proc/" + std::to_string(executable.tgid) + "/exe";
    Fd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
    struct stat status{};
    if (!fd || ::fstat(fd.get(), &status) != 0 || status.st_ino != executable.id.inode ||
        static_cast<std::uint64_t>(status.st_size) != executable.bytes) {
        return Fd();  // gone, or another program by now
    }
    return fd;
}

// Empty unless it is the same program, at the same place, that has the string.
std::optional<std::string> string_of_process(const Executable &executable, std::uint64_t address) {
    auto text = read_string(executable.tgid, address, KernelNamer::kMaxRegisteredBytes);
    // Only now: had the process ended before the read, another one may have its number.
    if (!open_running(executable) || code_start_of(executable.tgid) != executable.code_start) {
        return std::nullopt;
    }
    return text;
}

std::optional<std::string> string_of_file(const CachedFile &file, std::uint64_t vaddr) {
    const auto offset = file.elf()->to_file_offset(vaddr);
    if (!offset) {
        return std::nullopt;
    }
    std::string text = file.read(*offset, KernelNamer::kMaxRegisteredBytes);
    const std::size_t end = text.find('\0');
    if (end == std::string::npos) {
        return std::nullopt;
    }
    text.resize(end);
    return text;
}

}  // namespace

KernelNamer::KernelNamer(std::unique_ptr<MappedFiles> files, FileCache::Settings settings)
    : KernelNamer(std::move(files), kernel_name, std::move(settings)) {}

KernelNamer::KernelNamer(std::unique_ptr<MappedFiles> files, Naming naming,
                         FileCache::Settings settings)
    : files_(std::move(files)), naming_(naming), cache_(naming, std::move(settings)) {}

std::optional<FileCache::Clock::time_point> KernelNamer::close_unused() {
    cache_.close_unused();
    return cache_.next_close();
}

std::string KernelNamer::name(const KernelRequest &request) {
    std::string name = name_by_symbols(request);
    return name.empty() && request.name_pointer ? registered_name(request) : name;
}

std::string KernelNamer::name_by_symbols(const KernelRequest &request) {
    CachedFile *file = open_executable(request.executable);
    const bool in_executable = request.address >= request.executable.code_start &&
                               request.address < request.executable.code_end;
    if (file != nullptr && in_executable) {
        return name_in_executable(request, *file);
    }
    std::string name = name_in_mappings(request);
    if (name.empty()) {
        // The file may have been dropped from the cache meanwhile.
        file = open_executable(request.executable);
        name = file != nullptr ? name_of_handle(request, *file) : "";
    }
    return name;
}

std::string KernelNamer::name_in_executable(const KernelRequest &request, CachedFile &file) {
    const auto bias = load_bias(request.executable, file);
    const auto offset =
        bias ? file.elf()->to_file_offset(request.address - *bias) : std::optional<std::uint64_t>();
    return offset ? name_at(file, *offset) : "";
}

std::string KernelNamer::name_in_mappings(const KernelRequest &request) {
    const auto mappings = files_->list(request.executable.tgid);
    if (!mappings) {
        return {};
    }
    for (const kernel::Mapping &mapping : *mappings) {
        if (request.address < mapping.start || request.address >= mapping.end) {
            continue;
        }
        CachedFile *file = cache_.find(mapping.file);
        if (file == nullptr) {
            if (auto fd = files_->open_file(mapping)) {
                file = &cache_.keep(mapping.file, std::move(*fd));
            }
        }
        return file != nullptr
                   ? name_at(*file, request.address - mapping.start + mapping.file_offset)
                   : "";
    }
    return {};
}

std::string KernelNamer::name_of_handle(const KernelRequest &request, const CachedFile &file) {
    const auto bias = load_bias(request.executable, file);
    if (!bias) {
        return {};
    }
    const auto handles = file.elf()->find_by_ending(kLaunchHandleEnding);
    if (!handles) {
        return {};
    }
    for (const FoundSymbol &symbol : *handles) {
        const auto kernel = kernel_of_launch_handle(symbol.name);
        if (kernel && read_word(request.executable.tgid, symbol.vaddr + *bias) == request.address) {
            return naming_(*kernel);
        }
    }
    return {};
}

std::string KernelNamer::registered_name(const KernelRequest &request) {
    auto text = string_of_process(request.executable, *request.name_pointer);
    if (!text) {
        const CachedFile *file = open_executable(request.executable);
        const auto bias = file != nullptr ? load_bias(request.executable, *file) : std::nullopt;
        text = bias ? string_of_file(*file, *request.name_pointer - *bias) : std::nullopt;
    }
    return text ? naming_(*text) : "";
}

std::string KernelNamer::name_at(CachedFile &file, std::uint64_t file_offset) {
    const std::array<std::uint64_t, 1> offsets = {file_offset};
    return cache_.functions_at(file, offsets).front().name;
}

CachedFile *KernelNamer::open_executable(const Executable &executable) {
    // The size too: a file system without inode generations may reuse a number.
    if (CachedFile *known = cache_.find(executable.id, executable.bytes)) {
        return known;
    }
    Fd fd = open_running(executable);
    return fd ? &cache_.keep(executable.id, std::move(fd)) : nullptr;
}

}  // namespace gpusnoop::symbols
