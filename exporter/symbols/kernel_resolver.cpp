#include "exporter/symbols/kernel_resolver.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <array>

#include "exporter/discovery/open_mapped.h"
#include "exporter/symbols/kernel_name.h"

namespace gpusnoop::symbols {

namespace {

constexpr std::size_t max_open_files = 64;

// The address `vaddr` of a loaded executable, given where its code begins.
std::optional<std::uint64_t> load_bias(const Executable &executable, const ElfFile &elf) {
    const auto lowest = elf.lowest_executable_vaddr();
    if (!lowest) {
        return std::nullopt;
    }
    return executable.code_start - *lowest;
}

std::optional<std::uint64_t> read_word(std::uint32_t tgid, std::uint64_t address) {
    std::uint64_t word = 0;
    iovec local{&word, sizeof(word)};
    iovec remote{reinterpret_cast<void *>(address), sizeof(word)};
    const ssize_t got = ::process_vm_readv(static_cast<pid_t>(tgid), &local, 1, &remote, 1, 0);
    return got == sizeof(word) ? std::optional(word) : std::nullopt;
}

}  // namespace

KernelResolver::KernelResolver(std::unique_ptr<kernel::MappingList> mappings)
    : mappings_(std::move(mappings)) {}

KernelResolver::~KernelResolver() = default;

Result<std::unique_ptr<KernelResolver>> KernelResolver::start() {
    auto mappings = kernel::MappingList::open();
    if (!mappings) {
        return tl::unexpected(mappings.error());
    }
    std::unique_ptr<KernelResolver> resolver(new KernelResolver(std::move(*mappings)));
    resolver->thread_ =
        std::jthread([self = resolver.get()](const std::stop_token &stop) { self->run(stop); });
    return resolver;
}

void KernelResolver::remember(const Executable &executable) {
    const std::lock_guard lock(mutex_);
    to_open_.push_back(executable);
    work_.notify_one();
}

void KernelResolver::ask(KernelRequest request) {
    const std::lock_guard lock(mutex_);
    requests_.push_back(std::move(request));
    work_.notify_one();
}

std::vector<KernelAnswer> KernelResolver::answers() {
    const std::lock_guard lock(mutex_);
    return std::exchange(answers_, {});
}

void KernelResolver::run(const std::stop_token &stop) {
    while (true) {
        std::vector<Executable> to_open;
        std::vector<KernelRequest> requests;
        {
            std::unique_lock lock(mutex_);
            if (!work_.wait(lock, stop, [&] { return !to_open_.empty() || !requests_.empty(); })) {
                return;
            }
            to_open.swap(to_open_);
            requests.swap(requests_);
        }
        // First of all what may be gone soon.
        for (const Executable &executable : to_open) {
            open_executable(executable);
        }
        for (const KernelRequest &request : requests) {
            KernelAnswer answer{request.ticket, resolve(request)};
            const std::lock_guard lock(mutex_);
            answers_.push_back(std::move(answer));
        }
    }
}

std::string KernelResolver::resolve(const KernelRequest &request) {
    OpenFile *file = open_executable(request.executable);
    const bool in_executable = request.address >= request.executable.code_start &&
                               request.address < request.executable.code_end;
    if (file != nullptr && in_executable) {
        return resolve_in_executable(request, *file);
    }
    std::string name = resolve_in_mappings(request);
    if (name.empty() && file != nullptr) {
        // The file may have been dropped from the cache meanwhile.
        file = open_executable(request.executable);
        name = file != nullptr ? resolve_handle(request, *file) : "";
    }
    return name;
}

std::string KernelResolver::resolve_in_executable(const KernelRequest &request, OpenFile &file) {
    const auto bias = load_bias(request.executable, file.elf);
    if (!bias) {
        return {};
    }
    const auto offset = file.elf.to_file_offset(request.address - *bias);
    return offset ? name_at(file, *offset) : "";
}

std::string KernelResolver::resolve_in_mappings(const KernelRequest &request) {
    const auto mappings = mappings_->read(request.executable.tgid);
    if (!mappings) {
        return {};
    }
    for (const kernel::Mapping &mapping : *mappings) {
        if (request.address < mapping.start || request.address >= mapping.end) {
            continue;
        }
        const FileKey key{mapping.file, 0};
        OpenFile *file = find(key);
        if (file == nullptr) {
            auto fd = discovery::open_mapped(mapping, *mappings_);
            file = fd ? keep(key, std::move(*fd)) : nullptr;
        }
        return file != nullptr
                   ? name_at(*file, request.address - mapping.start + mapping.file_offset)
                   : "";
    }
    return {};
}

std::string KernelResolver::resolve_handle(const KernelRequest &request, OpenFile &file) {
    const auto bias = load_bias(request.executable, file.elf);
    const auto handles = file.elf.find_by_ending(kLaunchHandleEnding);
    if (!bias || !handles) {
        return {};
    }
    for (const FoundSymbol &symbol : *handles) {
        const auto kernel = kernel_of_launch_handle(symbol.name);
        if (kernel && read_word(request.executable.tgid, symbol.vaddr + *bias) == request.address) {
            return kernel_name(*kernel);
        }
    }
    return {};
}

std::string KernelResolver::name_at(OpenFile &file, std::uint64_t file_offset) {
    if (const auto known = file.names.find(file_offset); known != file.names.end()) {
        return known->second;
    }
    const std::array<std::uint64_t, 1> offsets = {file_offset};
    const auto symbols = file.elf.functions_at(offsets);
    std::string name = symbols && !symbols->front().empty() ? kernel_name(symbols->front()) : "";
    file.names.emplace(file_offset, name);
    return name;
}

KernelResolver::OpenFile *KernelResolver::open_executable(const Executable &executable) {
    // The size too: a file system without inode generations may reuse a number.
    const FileKey key{executable.id, executable.bytes};
    if (OpenFile *known = find(key)) {
        return known;
    }
    const std::string path = "/proc/" + std::to_string(executable.tgid) + "/exe";
    Fd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
    struct stat status{};
    if (!fd || ::fstat(fd.get(), &status) != 0 || status.st_ino != executable.id.inode ||
        static_cast<std::uint64_t>(status.st_size) != executable.bytes) {
        return nullptr;  // gone, or another program by now
    }
    return keep(key, std::move(fd));
}

KernelResolver::OpenFile *KernelResolver::keep(const FileKey &key, Fd fd) {
    auto elf = ElfFile::open(fd.get());
    if (!elf) {
        return nullptr;
    }
    files_.emplace_front(key, OpenFile{std::move(fd), std::move(*elf), {}});
    if (files_.size() > max_open_files) {
        files_.pop_back();
    }
    return &files_.front().second;
}

KernelResolver::OpenFile *KernelResolver::find(const FileKey &key) {
    const auto found = std::ranges::find(files_, key, &std::pair<FileKey, OpenFile>::first);
    if (found == files_.end()) {
        return nullptr;
    }
    files_.splice(files_.begin(), files_, found);
    return &files_.front().second;
}

}  // namespace gpusnoop::symbols
