#include "exporter/probes/cuda/launches/cuda_kernel_namer.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstring>
#include <utility>

#include "exporter/probes/cuda/launches/cuda_kernel_name.h"
#include "exporter/symbols/stacks/patient_reader.h"

namespace gpusnoop::symbols {
namespace {

// For the files and the memory of a process, for one name: a file system that answers slowly must
// not keep others waiting.
constexpr std::chrono::seconds longest_wait{5};

// The difference between a loaded executable's addresses and its link addresses, from the address
// of its code.
std::optional<std::uint64_t> load_bias(const Executable &executable, const CachedFile &file) {
    const auto lowest = file.elf() ? file.elf()->lowest_executable_vaddr() : std::nullopt;
    return lowest ? std::optional(executable.code_start - *lowest) : std::nullopt;
}

ReadMemory reader_of(MappedFiles &files) {
    return [&files](std::uint32_t tgid, std::uint64_t address, std::size_t size) {
        return files.read_memory(tgid, address, size);
    };
}

// Empty unless the string comes from the same program, loaded at the same address.
std::optional<std::string> string_of_process(MappedFiles &files, const Executable &executable,
                                             std::uint64_t address) {
    auto text = read_string(executable.tgid, address, CudaKernelNamer::max_registered_bytes,
                            reader_of(files));
    // Check after the read: if the process ended before it, another process may have its id.
    if (!text || !files.runs_program(executable.tgid, executable.id, executable.bytes) ||
        code_start_of(executable.tgid) != executable.code_start) {
        return std::nullopt;
    }
    return text;
}

// Reads adjacent words page by page.
class Words {
public:
    Words(MappedFiles &files, std::uint32_t tgid) : files_(files), tgid_(tgid) {}

    std::optional<std::uint64_t> at(std::uint64_t address) {
        constexpr std::uint64_t page = 4096;
        const std::uint64_t start = address / page * page;
        if (start + page - address < sizeof(std::uint64_t)) {
            return read_word(tgid_, address, reader_of(files_));
        }
        if (!page_ || page_start_ != start) {
            page_start_ = start;
            page_ = files_.read_memory(tgid_, start, page).value_or("");
        }
        std::uint64_t word = 0;
        if (page_->size() != page) {
            return std::nullopt;
        }
        std::memcpy(&word, page_->data() + (address - start), sizeof(word));
        return word;
    }

private:
    MappedFiles &files_;
    std::uint32_t tgid_;
    std::uint64_t page_start_ = 0;
    std::optional<std::string> page_;
};

std::optional<std::string> string_of_file(const CachedFile &file, std::uint64_t vaddr) {
    const auto offset = file.elf()->to_file_offset(vaddr);
    if (!offset) {
        return std::nullopt;
    }
    std::string text = file.read(*offset, CudaKernelNamer::max_registered_bytes);
    const std::size_t end = text.find('\0');
    if (end == std::string::npos && text.size() < CudaKernelNamer::max_registered_bytes) {
        return std::nullopt;  // it goes on behind the end of the file
    }
    text.resize(std::min(end, text.size()));
    return text;
}

}  // namespace

CudaKernelNamer::CudaKernelNamer(std::unique_ptr<MappedFiles> files, FileCache::Settings settings)
    : CudaKernelNamer(std::move(files), kernel_name, std::move(settings)) {}

CudaKernelNamer::CudaKernelNamer(std::unique_ptr<MappedFiles> files, Naming naming,
                                 FileCache::Settings settings)
    : files_(std::move(files)), naming_(naming), cache_(naming, std::move(settings)) {}

std::optional<FileCache::Clock::time_point> CudaKernelNamer::close_unused() {
    cache_.close_unused();
    const auto next = cache_.next_close();
    if (!next) {
        files_->rest();
    }
    return next;
}

std::string CudaKernelNamer::name(const CudaKernelRequest &request, const WorkLimit &limit) {
    files_->set_limit(WorkLimit{.stop = limit.stop}.at_most(longest_wait));
    std::string name = name_by_symbols(request, limit);
    return name.empty() && request.name_pointer && !limit.is_reached() ? registered_name(request)
                                                                       : name;
}

std::string CudaKernelNamer::name_by_symbols(const CudaKernelRequest &request,
                                             const WorkLimit &limit) {
    CachedFile *file = open_executable(request.executable);
    const bool in_executable = request.address >= request.executable.code_start &&
                               request.address < request.executable.code_end;
    if (file != nullptr && in_executable) {
        return name_in_executable(request, *file);
    }
    std::string name = name_in_mappings(request);
    if (name.empty()) {
        // The file may have left the cache meanwhile.
        file = open_executable(request.executable);
        name = file != nullptr ? name_of_handle(request, *file, limit) : "";
    }
    return name;
}

std::string CudaKernelNamer::name_in_executable(const CudaKernelRequest &request,
                                                CachedFile &file) {
    const auto bias = load_bias(request.executable, file);
    const auto offset =
        bias ? file.elf()->to_file_offset(request.address - *bias) : std::optional<std::uint64_t>();
    return offset ? name_at(file, *offset) : "";
}

std::string CudaKernelNamer::name_in_mappings(const CudaKernelRequest &request) {
    const auto mappings = files_->list(request.executable.tgid);
    if (!mappings) {
        return {};
    }
    for (const ebpf::Mapping &mapping : *mappings) {
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

std::string CudaKernelNamer::name_of_handle(const CudaKernelRequest &request, CachedFile &file,
                                            const WorkLimit &limit) {
    const auto bias = load_bias(request.executable, file);
    if (!bias) {
        return {};
    }
    Words words(*files_, request.executable.tgid);
    for (const FoundSymbol &symbol : file.find_by_suffix(launch_handle_ending)) {
        if (limit.is_reached()) {
            break;
        }
        const auto kernel = kernel_of_launch_handle(symbol.name);
        if (kernel && words.at(symbol.vaddr + *bias) == request.address) {
            return naming_(*kernel);
        }
    }
    return {};
}

std::string CudaKernelNamer::registered_name(const CudaKernelRequest &request) {
    auto text = string_of_process(*files_, request.executable, *request.name_pointer);
    if (!text) {
        const CachedFile *file = open_executable(request.executable);
        const auto bias = file != nullptr ? load_bias(request.executable, *file) : std::nullopt;
        text = bias ? string_of_file(*file, *request.name_pointer - *bias) : std::nullopt;
    }
    return text ? naming_(*text) : "";
}

std::string CudaKernelNamer::name_at(CachedFile &file, std::uint64_t file_offset) {
    const std::array<std::uint64_t, 1> offsets = {file_offset};
    return cache_.functions_at(file, offsets).front().name;
}

CachedFile *CudaKernelNamer::open_executable(const Executable &executable) {
    // Also compares the size: a file system without inode generations may reuse a number.
    if (CachedFile *known = cache_.find(executable.id, executable.bytes)) {
        return known;
    }
    auto file = files_->open_program(executable.tgid, executable.id, executable.bytes);
    return file ? &cache_.keep(executable.id, std::move(*file)) : nullptr;
}

namespace {

constexpr std::size_t max_batch = 1024;
// Of one process, before others have theirs. One question may take longer.
constexpr std::chrono::milliseconds longest_turn{100};
// No kernel's name is worth more.
constexpr std::chrono::seconds longest_for_name{2};

}  // namespace

Result<std::unique_ptr<CudaKernelResolver>> CudaKernelResolver::start() {
    auto files = MappedFiles::open();
    if (!files) {
        return tl::unexpected(files.error());
    }
    return std::make_unique<CudaKernelResolver>(std::move(*files));
}

CudaKernelResolver::CudaKernelResolver(std::unique_ptr<MappedFiles> files,
                                       FileCache::Settings settings)
    : namer_(std::move(files), std::move(settings)),
      thread_(
          {.max_waiting = max_waiting, .max_batch = max_batch, .longest_turn = longest_turn},
          [this](const std::vector<Question> &batch, const WorkLimit &limit, const auto &post) {
              std::size_t answered = 0;
              do {
                  const Question &question = batch[answered++];
                  if (const auto *executable = std::get_if<Executable>(&question)) {
                      namer_.remember(*executable);
                  } else if (const auto *request = std::get_if<CudaKernelRequest>(&question)) {
                      const WorkLimit of_name = WorkLimit{limit.stop}.at_most(longest_for_name);
                      post({request->ticket, namer_.name(*request, of_name)});
                  }
              } while (answered < batch.size() && !limit.is_reached());
              return answered;
          },
          [this] { return namer_.close_unused(); }) {}

void CudaKernelResolver::remember(const Executable &executable) {
    ask(executable.tgid, executable);
}

void CudaKernelResolver::ask(CudaKernelRequest request) {
    const std::uint32_t tgid = request.executable.tgid;
    ask(tgid, std::move(request));
}

void CudaKernelResolver::ask(std::uint32_t tgid, Question question) {
    const auto refused = thread_.ask(tgid, std::move(question));
    if (const auto *request = refused ? std::get_if<CudaKernelRequest>(&*refused) : nullptr) {
        thread_.post({request->ticket, ""});
    }
}

std::vector<CudaKernelReply> CudaKernelResolver::answers() {
    return thread_.answers();
}

}  // namespace gpusnoop::symbols
