// Names for the kernels that processes launch, found off the hot path in a thread of its own.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <stop_token>
#include <string>
#include <thread>
#include <vector>

#include "exporter/base/fd.h"
#include "exporter/base/file_id.h"
#include "exporter/base/result.h"
#include "exporter/kernel/mapping_list.h"
#include "exporter/symbols/elf_file.h"

namespace gpusnoop::symbols {

// A process's own program, as a BPF program saw it. Lets a kernel be named after the process is
// gone.
struct Executable {
    std::uint32_t tgid = 0;
    FileId id;
    std::uint64_t bytes = 0;
    std::uint64_t code_start = 0;
    std::uint64_t code_end = 0;
};

// The launch call's first argument in one process: the address of the kernel's host function, or a
// launch handle (nvcc 13), which is not an address of code.
struct KernelRequest {
    std::uint64_t ticket = 0;  // comes back with the answer
    Executable executable;
    std::uint64_t address = 0;
};

struct KernelAnswer {
    std::uint64_t ticket = 0;
    std::string name;  // shortened and demangled; empty: not to be found
};

// Looks, in this order:
//  1. in the executable's symbols, if the address is in its code;
//  2. in the symbols of the file that the process has mapped there;
//  3. among the executable's launch handles, which nvcc 13 keeps in static variables: this names
//  the
//     kernels of programs that were running before the exporter.
class KernelResolver {
public:
    static Result<std::unique_ptr<KernelResolver>> start();
    ~KernelResolver();
    KernelResolver(const KernelResolver &) = delete;
    KernelResolver &operator=(const KernelResolver &) = delete;

    // Opens the executable while the process lives. Never blocks.
    void remember(const Executable &executable);
    void ask(KernelRequest request);
    // The answers that are ready.
    std::vector<KernelAnswer> answers();

private:
    struct OpenFile {
        Fd fd;
        ElfFile elf;
        std::map<std::uint64_t, std::string> names;  // by file offset, as far as asked
    };
    using FileKey = std::pair<FileId, std::uint64_t>;  // and its size

    explicit KernelResolver(std::unique_ptr<kernel::MappingList> mappings);
    void run(const std::stop_token &stop);
    std::string resolve(const KernelRequest &request);
    std::string resolve_in_executable(const KernelRequest &request, OpenFile &file);
    std::string resolve_in_mappings(const KernelRequest &request);
    std::string resolve_handle(const KernelRequest &request, OpenFile &file);
    std::string name_at(OpenFile &file, std::uint64_t file_offset);
    OpenFile *open_executable(const Executable &executable);
    OpenFile *keep(const FileKey &key, Fd fd);
    OpenFile *find(const FileKey &key);

    std::unique_ptr<kernel::MappingList> mappings_;
    std::list<std::pair<FileKey, OpenFile>> files_;  // most recently used first

    std::mutex mutex_;
    std::condition_variable_any work_;
    std::vector<Executable> to_open_;
    std::vector<KernelRequest> requests_;
    std::vector<KernelAnswer> answers_;
    std::jthread thread_;
};

}  // namespace gpusnoop::symbols
